//! Sentinels, who agree on which node is the master.
//!
//! They are listened to, and asked each time that a connection is made, one after the other: one that has not heard of a failover yet names a node that is
//! gone, or one that says of itself that it is a replica, and then the next sentinel is asked.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::address::Node;
use crate::connection::{Access, Broken, Connection, CurrentCredentials};
use crate::fleet::{Fleet, jittered};
use crate::wire::Reply;

/// How long a sentinel may say nothing before it is asked.
const LISTEN_MAX: Duration = Duration::from_secs(2);
/// How long to wait before the next one is listened to.
const LISTEN_PAUSE: Duration = Duration::from_millis(250);

/// The sentinels of one master.
pub(crate) struct Sentinels {
    pub(crate) master: String,
    /// The one that knew most recently comes first.
    nodes: Mutex<Vec<Node>>,
    access: Access,
}

impl Sentinels {
    pub(super) fn new(fleet: &Fleet, master: String) -> Sentinels {
        let credentials = Arc::new(CurrentCredentials::new(fleet.settings.sentinel_credentials.clone()));
        let access = fleet.access();
        // A sentinel that is gone must not use up the time of the others.
        let access = Access { credentials, database: 0, timeout: access.timeout / 4, ..access };
        Sentinels { master, nodes: Mutex::new(fleet.settings.address.nodes.clone()), access }
    }

    /// A connection to the master, which says itself that it is one.
    pub(crate) async fn connect(&self, access: &Access) -> Result<(Node, Connection), Broken> {
        let mut failed: Vec<Node> = Vec::new();
        let mut last = Broken::NoMaster;
        for sentinel in self.nodes() {
            let master = match self.ask(&sentinel).await {
                Ok(master) if failed.contains(&master) => continue,
                Ok(master) => master,
                Err(broken) => {
                    last = broken;
                    continue;
                }
            };
            match open_master(&master, access).await {
                Ok(connection) => {
                    self.prefer(&sentinel);
                    return Ok((master, connection));
                }
                Err(broken) => last = broken,
            }
            failed.push(master);
        }
        Err(last)
    }

    /// Waits until a sentinel says that another node has become the master. A master that was replaced in good order may take questions
    /// for seconds more, and what it counts then is forgotten.
    pub(crate) async fn replaced(&self, node: &Node) {
        loop {
            for sentinel in self.nodes() {
                if self.listen(&sentinel, node).await.is_ok() {
                    return;
                }
                sleep(jittered(LISTEN_PAUSE)).await;
            }
        }
    }

    /// Listens to one sentinel until it says so.
    async fn listen(&self, sentinel: &Node, node: &Node) -> Result<(), Broken> {
        let mut connection = Connection::open(sentinel, &self.access).await?;
        connection.ask(&[b"SUBSCRIBE", b"+switch-master"]).await?;
        // Asked after the subscription, so that nothing is missed, and when nothing was heard for long: the sentinel may be gone.
        while self.ask(sentinel).await? == *node {
            // Whatever it says is a reason to ask.
            if let Ok(heard) = timeout(LISTEN_MAX, connection.receive()).await {
                heard?;
            }
        }
        Ok(())
    }

    async fn ask(&self, sentinel: &Node) -> Result<Node, Broken> {
        let mut connection = Connection::open(sentinel, &self.access).await?;
        let words: [&[u8]; 3] = [b"SENTINEL", b"get-master-addr-by-name", self.master.as_bytes()];
        let asked = timeout(self.access.timeout, connection.ask(&words)).await;
        let Reply::Array(items) = asked.map_err(|_| Broken::Slow(self.access.timeout))?? else {
            return Err(Broken::NoMaster);
        };
        match (items.first().and_then(Reply::text), items.get(1).and_then(Reply::text)) {
            (Some(host), Some(port)) => {
                let port = port.parse().map_err(|_| Broken::NoMaster)?;
                Ok(Node { host: host.to_owned(), port })
            }
            _ => Err(Broken::NoMaster),
        }
    }

    fn nodes(&self) -> Vec<Node> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn prefer(&self, sentinel: &Node) {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = nodes.iter().position(|node| node == sentinel) {
            nodes[..=place].rotate_right(1);
        }
    }
}

async fn open_master(node: &Node, access: &Access) -> Result<Connection, Broken> {
    let mut connection = Connection::open(node, access).await?;
    match connection.ask(&[b"ROLE"]).await? {
        Reply::Array(role) if role.first().and_then(Reply::text) == Some("master") => Ok(connection),
        _ => Err(Broken::NotMaster),
    }
}
