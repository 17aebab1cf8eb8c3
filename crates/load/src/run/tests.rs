//! Whom a load connects to.

use std::net::TcpListener;

use super::{LoadError, connect_to_any};

#[tokio::test]
async fn the_first_address_at_which_somebody_listens_is_taken() {
    // A port that was free a moment ago.
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let somebody = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = somebody.local_addr().unwrap();
    for addresses in [vec![nobody, address], vec![address, nobody], vec![address]] {
        let (connected, stream) = connect_to_any(&addresses).await.unwrap();
        assert_eq!((connected, stream.peer_addr().unwrap()), (address, address), "{addresses:?}");
    }
    let refused = connect_to_any(&[nobody]).await.unwrap_err();
    assert!(matches!(refused, LoadError::Connect { address, .. } if address == nobody), "{refused}");
}
