//! Clients that shake hands, and those that do not.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpListener;
use tokio_rustls::TlsConnector;
use tokio_rustls::client;

use super::*;
use crate::drain::Stopper;

fn door(identity: &Identity, listener: &'static str, is_mutual: bool) -> Arc<Door> {
    let config = identity.config(is_mutual, protocols(listener)).unwrap();
    Arc::new(Door { listener, is_mutual, config: ArcSwap::from(config) })
}

/// A client that trusts an authority, and may have a certificate itself.
fn client(trusts: &Authority, shows: Option<&Pair>, protocols: &[&[u8]]) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusts.pem().as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_root_certificates(roots);
    let mut config = match shows {
        None => builder.with_no_client_auth(),
        Some(pair) => {
            let chain = CertificateDer::pem_slice_iter(pair.certificate.as_bytes());
            let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
            builder.with_client_auth_cert(chain.collect::<Result<_, _>>().unwrap(), key).unwrap()
        }
    };
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    TlsConnector::from(Arc::new(config))
}

async fn sockets() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (client, server) =
        tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
    (client.unwrap(), server.unwrap().0)
}

type Shaken = (io::Result<client::TlsStream<TcpStream>>, Option<TlsStream<TcpStream>>);

async fn shake_hands(connector: &TlsConnector, door: &Door) -> Shaken {
    let (client, server) = sockets().await;
    let stopper = Stopper::new();
    let mut drain = stopper.drain();
    let name = ServerName::try_from("localhost").unwrap();
    tokio::join!(connector.connect(name, client), door.open(server, &mut drain))
}

/// Both ends of a connection agree that there is one.
async fn check_talk(client: &mut client::TlsStream<TcpStream>, server: &mut TlsStream<TcpStream>) {
    client.write_all(b"ping").await.unwrap();
    let mut heard = [0; 4];
    server.read_exact(&mut heard).await.unwrap();
    assert_eq!(&heard, b"ping");
}

#[tokio::test]
async fn clients_choose_what_is_spoken_behind_the_door() {
    let authority = Authority::new();
    let identity = identity(&authority.vouch_for("localhost"), &authority.pem()).unwrap();
    for (listener, offered, chosen) in [
        ("http", &[b"http/1.1".as_slice(), b"h2"][..], Some(b"h2".as_slice())),
        ("http", &[b"http/1.1"], Some(b"http/1.1")),
        ("admin", &[b"http/1.1"], Some(b"http/1.1")),
        ("http", &[], None),
        ("grpc", &[b"http/1.1", b"h2"], Some(b"h2")),
        ("grpc", &[], None),
        ("resp", &[b"h2"], None),
        ("resp", &[], None),
    ] {
        let (client, server) =
            shake_hands(&client(&authority, None, offered), &door(&identity, listener, false)).await;
        client.unwrap();
        assert_eq!(server.unwrap().get_ref().1.alpn_protocol(), chosen, "{listener} {offered:?}");
    }
    let (client, server) =
        shake_hands(&client(&authority, None, &[b"http/1.1"]), &door(&identity, "grpc", false)).await;
    assert!(client.is_err() && server.is_none(), "gRPC is HTTP/2");
}

#[tokio::test]
async fn where_clients_have_to_show_a_certificate_others_stay_outside() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let identity = identity(&ours.vouch_for("localhost"), &ours.pem()).unwrap();
    let (mutual, on) = (door(&identity, "resp", true), door(&identity, "resp", false));
    let (known, stranger) = (ours.vouch_for("ann"), theirs.vouch_for("ann"));
    for (shows, lets_in) in [(Some(&known), true), (Some(&stranger), false), (None, false)] {
        let (_client, server) = shake_hands(&client(&ours, shows, &[]), &mutual).await;
        assert_eq!(server.is_some(), lets_in);
        let (_client, server) = shake_hands(&client(&ours, shows, &[]), &on).await;
        assert!(server.is_some(), "nobody is asked");
    }
}

#[tokio::test]
async fn a_revoked_client_certificate_is_refused() {
    let ours = Authority::new();
    let (ann, bob) = (ours.vouch_for_number("ann", Some(7)), ours.vouch_for_number("bob", Some(8)));
    let server = ours.vouch_for("localhost");
    let before = identity_with_lists(&server, &ours.pem(), &ours.revoke(&[9], 2100)).unwrap();
    let mutual = door(&before, "resp", true);
    let is_let_in =
        async |shows: &Pair| shake_hands(&client(&ours, Some(shows), &[]), &mutual).await.1.is_some();
    assert!(is_let_in(&ann).await && is_let_in(&bob).await);
    let after = identity_with_lists(&server, &ours.pem(), &ours.revoke(&[7, 9], 2100)).unwrap();
    after.hang_up(&[Arc::clone(&mutual)]).unwrap();
    assert!(!is_let_in(&ann).await, "it was revoked");
    assert!(is_let_in(&bob).await);
    // An authority without a list says nothing about its certificates.
    let other = Authority::new();
    let both = ours.pem() + &other.pem();
    identity_with_lists(&server, &both, &ours.revoke(&[7], 2100))
        .unwrap()
        .hang_up(&[Arc::clone(&mutual)])
        .unwrap();
    assert!(!is_let_in(&other.vouch_for("eve")).await);
    assert!(is_let_in(&bob).await);
}

#[tokio::test]
async fn whoever_is_refused_is_told_why() {
    let ours = Authority::new();
    let identity = identity(&ours.vouch_for("localhost"), &ours.pem()).unwrap();
    let mutual = door(&identity, "resp", true);
    let (client_end, server_end) = sockets().await;
    let stopper = Stopper::new();
    let mut drain = stopper.drain();
    let refused = async {
        let connector = client(&ours, None, &[]);
        let mut client =
            connector.connect(ServerName::try_from("localhost").unwrap(), client_end).await.unwrap();
        // More than is read during a handshake: it must not make the connection break.
        client.write_all(&vec![b'x'; 100 << 10]).await.unwrap();
        client.flush().await.unwrap();
        client.read_to_end(&mut Vec::new()).await.unwrap_err()
    };
    let both = async { tokio::join!(refused, mutual.open(server_end, &mut drain)) };
    let (refused, server) = tokio::time::timeout(2 * HANDSHAKE_TIMEOUT, both).await.unwrap();
    assert!(server.is_none());
    assert_eq!(refused.to_string(), "received fatal alert: CertificateRequired");
}

#[tokio::test]
async fn a_new_certificate_is_shown_to_new_clients_and_disturbs_nobody() {
    let (before, after) = (Authority::new(), Authority::new());
    let first = identity(&before.vouch_for("localhost"), &before.pem()).unwrap();
    let door = door(&first, "resp", true);
    let old = client(&before, Some(&before.vouch_for("ann")), &[]);
    let (client_end, server_end) = shake_hands(&old, &door).await;
    let (mut client_end, mut server_end) = (client_end.unwrap(), server_end.unwrap());
    check_talk(&mut client_end, &mut server_end).await;

    let second = identity(&after.vouch_for("localhost"), &after.pem()).unwrap();
    second.hang_up(&[Arc::clone(&door)]).unwrap();
    check_talk(&mut client_end, &mut server_end).await;
    let (_client, server) = shake_hands(&client(&after, Some(&after.vouch_for("bob")), &[]), &door).await;
    assert!(server.is_some());
    // Neither does it trust this server any more, nor would the server trust it; and nothing of before can be resumed.
    let (client, server) = shake_hands(&old, &door).await;
    assert!(client.is_err() && server.is_none());
    check_talk(&mut client_end, &mut server_end).await;
}

#[tokio::test]
async fn whoever_speaks_in_the_clear_is_answered_with_an_alert_and_an_end() {
    let authority = Authority::new();
    let identity = identity(&authority.vouch_for("localhost"), &authority.pem()).unwrap();
    let door = door(&identity, "http", false);
    for sent in [b"GET / HTTP/1.1\r\nhost: x\r\n\r\n".to_vec(), b"PING\r\n".to_vec(), vec![b'x'; 100 << 10]] {
        let (mut client, server) = sockets().await;
        let stopper = Stopper::new();
        let mut drain = stopper.drain();
        let talk = async {
            client.write_all(&sent).await.unwrap();
            client.shutdown().await.unwrap();
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).await.unwrap();
            answer
        };
        let (answer, server) = tokio::join!(talk, door.open(server, &mut drain));
        assert!(server.is_none());
        // A fatal alert, and nothing else.
        assert_eq!((answer.len(), answer[0], answer[5]), (7, 21, 2), "{answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_stalls_is_cut_off() {
    let authority = Authority::new();
    let identity = identity(&authority.vouch_for("localhost"), &authority.pem()).unwrap();
    let door = door(&identity, "http", false);
    let (_client, server) = sockets().await;
    let stopper = Stopper::new();
    let mut drain = stopper.drain();
    let opened = tokio::time::timeout(2 * HANDSHAKE_TIMEOUT, door.open(server, &mut drain)).await;
    assert!(opened.unwrap().is_none());
}

#[tokio::test]
async fn a_handshake_does_not_hold_up_a_server_that_stops() {
    let authority = Authority::new();
    let identity = identity(&authority.vouch_for("localhost"), &authority.pem()).unwrap();
    let door = door(&identity, "http", false);
    let (_client, server) = sockets().await;
    let stopper = Stopper::new();
    let mut drain = stopper.drain();
    stopper.stop();
    // Much longer than it takes, and shorter than a handshake may.
    let opened = tokio::time::timeout(HANDSHAKE_TIMEOUT / 2, door.open(server, &mut drain)).await;
    assert!(opened.unwrap().is_none());
}
