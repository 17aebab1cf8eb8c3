//! A master whose replica takes over, because sentinels say so.

use tollgate_testkit::real::redis::RedisSentinel;

use crate::{OPEN, Scene};

#[test]
fn the_replica_that_takes_over_is_asked_and_remembers() {
    let mut servers = RedisSentinel::start();
    let mut scene = Scene::start(&servers.address());
    let subject = ("closed", "carl");
    for _ in 0..5 {
        assert_eq!(scene.ask(subject).status, 200);
    }
    assert_eq!(servers.master.client().run("WAIT 1 0").integer(), 1, "the replica does not follow");
    servers.master.kill();
    let rounds = scene.load.pass(30);
    assert_eq!(scene.load.admitted(&rounds, OPEN), 30, "open rules admit");
    servers.wait_for_failover();
    scene.check_recovers();
    assert!(scene.openings() > 0);
    assert_eq!(scene.counted(subject), 5);
    scene.load.finish();
}
