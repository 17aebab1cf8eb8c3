//! Nobody is woken too early, as often as one waits.

use tollgate_store::Clock;

use super::Alarm;

#[tokio::test]
async fn an_alarm_rings_again_and_again_and_never_early() {
    let (clock, mut alarm) = (Clock::new(), Alarm::new().unwrap());
    for wait_ns in [1, 50_000, 0, 2_000_000, 300_000] {
        let before = clock.now().ticks();
        alarm.wait_ns(wait_ns).await.unwrap();
        let waited_ns = clock.now().ticks() - before;
        assert!(waited_ns >= wait_ns, "{waited_ns} instead of {wait_ns}");
    }
}
