//! The sketch against exact counts, and the machines around it, step by step.

use std::collections::{BTreeSet, HashMap};

use tollgate_core::{Span, Time};

use super::{
    Heat, Leasing, Pace, Sampler, ShardId, Sighting, Sketch, SketchSettings, Switch, SwitchSettings,
};
use crate::authority::mix;

const SECOND: u64 = 1_000_000_000;
const SHOWN: usize = 100;

fn at(ns: u64) -> Time {
    Time::from_ticks(1_700_000_000 * SECOND + ns)
}

fn sighting(number: u64, weight: u32) -> Sighting {
    Sighting { number, shard: ShardId::HERE, leasing: Leasing::Never, weight }
}

/// A number from 0 to 1, the same at every turn of every run.
#[allow(clippy::cast_precision_loss)]
fn unit(turn: u64) -> f64 {
    (mix(turn) >> 11) as f64 / (1_u64 << 53) as f64
}

/// Keys of which the n-th is drawn in proportion to `n^-skew`.
struct Zipf {
    sums: Vec<f64>,
}

impl Zipf {
    fn new(keys: u32, skew: f64) -> Zipf {
        let parts = (1..=keys).map(|rank| f64::from(rank).powf(-skew));
        let sums = parts.scan(0.0, |sum, part| {
            *sum += part;
            Some(*sum)
        });
        Zipf { sums: sums.collect() }
    }

    fn draw(&self, turn: u64) -> u64 {
        let place = unit(turn) * self.sums.last().unwrap();
        mix(self.sums.partition_point(|&sum| sum < place) as u64)
    }
}

/// A stream of decisions, a microsecond apart, sampled as a thread would: how many of the hundred heaviest are shown as such. Every count must be right up to what
/// is said of it.
fn check_zipf(keys: u32, skew: f64, gap_bits: u32) -> usize {
    let (zipf, sampler) = (Zipf::new(keys, skew), Sampler::new());
    let mut sketch =
        Sketch::new(SketchSettings { half_life: Span::from_ticks(1 << 62), ..SketchSettings::default() });
    let (mut all, mut looked_at): (HashMap<u64, u64>, HashMap<u64, u64>) = Default::default();
    let decisions = 1_000_000;
    for turn in 0..decisions {
        let key = zipf.draw(turn);
        *all.entry(key).or_default() += 1;
        if let Some(weight) = sampler.next(gap_bits) {
            *looked_at.entry(key).or_default() += u64::from(weight);
            sketch.see(&sighting(key, weight), at(turn * 1_000), || key);
        }
    }
    let end = at(decisions * 1_000);
    let elapsed = 1.0;
    for heavy in sketch.heaviest(usize::MAX, end) {
        assert_eq!(*heavy.name, heavy.number);
        let (count, error) = (heavy.per_second * elapsed, heavy.per_second_error * elapsed);
        #[allow(clippy::cast_precision_loss)]
        let exact = looked_at[&heavy.number] as f64;
        assert!((exact - 1.0..=exact + error + 1.0).contains(&count), "{exact}: {count} less {error}");
        assert!(error <= 1_000_000.0 / 2_048.0 * 1.01, "{error}");
    }
    let mut order: Vec<(u64, u64)> = all.into_iter().map(|(key, count)| (count, key)).collect();
    order.sort_unstable_by(|one, other| other.cmp(one));
    let heaviest: BTreeSet<u64> = order.iter().take(SHOWN).map(|&(_, key)| key).collect();
    let shown = sketch.heaviest(SHOWN, end);
    assert_eq!(shown.len(), SHOWN);
    shown.iter().filter(|heavy| heaviest.contains(&heavy.number)).count()
}

#[test]
fn the_first_hundred_are_right() {
    // Where only a part is looked at, chance decides about the last of them.
    for (keys, skew, gap_bits, least) in
        [(1_000_000, 1.0, 0, 99), (100_000, 1.1, 0, 99), (100_000, 1.1, 2, 95)]
    {
        let right = check_zipf(keys, skew, gap_bits);
        assert!(right >= least, "{keys} keys, {skew}, one in 2^{gap_bits}: {right}");
    }
}

#[test]
fn what_was_heavy_has_gone_after_a_while() {
    let mut sketch = Sketch::new(SketchSettings::default());
    let play = |sketch: &mut Sketch<()>, key: u64, from_s: u64, to_s: u64| {
        for ms in from_s * 1_000..to_s * 1_000 {
            sketch.see(&sighting(key, 1), at(ms * 1_000_000), || ());
        }
    };
    let rate = |sketch: &Sketch<()>, key, now_s| sketch.find(key, at(now_s * SECOND)).unwrap().per_second;
    play(&mut sketch, 1, 0, 60);
    assert!((995.0..=1_005.0).contains(&rate(&sketch, 1, 60)), "{}", rate(&sketch, 1, 60));
    assert!(
        (490.0..=510.0).contains(&rate(&sketch, 1, 70)),
        "half after ten seconds: {}",
        rate(&sketch, 1, 70)
    );
    // Twelve minutes, in which weights are scaled down.
    play(&mut sketch, 2, 60, 780);
    assert!((995.0..=1_005.0).contains(&rate(&sketch, 2, 780)), "{}", rate(&sketch, 2, 780));
    assert!(rate(&sketch, 1, 780) < 1e-9, "{}", rate(&sketch, 1, 780));
    let shares: Vec<f64> = sketch.heaviest(2, at(780 * SECOND)).iter().map(|heavy| heavy.share).collect();
    assert!(shares[0] > 0.999 && shares[1] < 1e-9, "{shares:?}");
}

#[test]
fn a_rate_is_right_from_the_first_second_on() {
    let mut sketch = Sketch::new(SketchSettings::default());
    for ms in 0..2_000 {
        sketch.see(&sighting(1, 1), at(ms * 1_000_000), || ());
    }
    let heavy = sketch.find(1, at(2 * SECOND)).unwrap();
    assert!((995.0..=1_005.0).contains(&heavy.per_second), "{}", heavy.per_second);
}

#[test]
fn what_is_denied_is_a_part_of_what_was_judged() {
    let mut sketch = Sketch::new(SketchSettings::default());
    for turn in 0..1_000 {
        let now = at(turn * 1_000_000);
        sketch.see(&sighting(1, 3), now, || ());
        // Of every fifth nobody says what became of it.
        if turn % 5 > 0 {
            sketch.judge(1, 3, turn % 5 == 1, now);
        }
        sketch.judge(2, 3, true, now);
    }
    let ratio = sketch.find(1, at(SECOND)).unwrap().denied_ratio;
    assert!((0.249..=0.251).contains(&ratio), "{ratio}");
    assert!(sketch.find(2, at(SECOND)).is_none());
}

#[test]
fn keys_that_never_come_again_fill_the_slots_and_no_more() {
    let mut sketch = Sketch::new(SketchSettings { slots: 100, ..SketchSettings::default() });
    for turn in 0..100_000 {
        sketch.see(&sighting(mix(turn), 1), at(turn * 1_000), || turn);
        // One in a hundred is always the same.
        if turn % 50 == 0 {
            sketch.see(&sighting(7, 1), at(turn * 1_000), || turn);
        }
    }
    assert_eq!(sketch.len(), 100);
    let heaviest = sketch.heaviest(1, at(SECOND / 10));
    assert_eq!(heaviest[0].number, 7);
    let others = sketch.heat(at(SECOND / 10)).filter(|heat| heat.number != 7);
    assert!(others.into_iter().all(|heat| heat.share < 0.001), "nobody else is heavy for certain");
}

#[test]
fn a_share_is_one_of_its_shard() {
    let mut sketch = Sketch::new(SketchSettings::default());
    for (number, shard, weight) in [(1, 1, 30), (2, 1, 70), (3, 2, 5)] {
        sketch.see(&Sighting { shard: ShardId(shard), ..sighting(number, weight) }, at(0), || ());
    }
    let share = |number| sketch.find(number, at(0)).unwrap().share;
    assert_eq!((share(1), share(2), share(3)), (0.3, 0.7, 1.0));
}

#[test]
fn samples_weigh_as_much_as_what_they_stand_for() {
    let sampler = Sampler::new();
    // What comes round in the very rhythm of the gaps.
    let (mut weights, decisions) = ([0_u64; 16], 1_000_000);
    for turn in 0..decisions {
        if !sampler.passes_over(1) {
            let Some(weight) = sampler.next(4) else { panic!("it was not passed over") };
            weights[turn % 16] += u64::from(weight);
        }
    }
    let seen = usize::try_from(weights.iter().sum::<u64>()).unwrap();
    assert!((decisions - 32..=decisions).contains(&seen), "{seen} of {decisions}");
    for weight in weights {
        assert!((55_000..=70_000).contains(&weight), "{weights:?}");
    }
}

#[test]
fn several_decisions_at_once_are_passed_over_together_or_not_at_all() {
    let sampler = Sampler::new();
    assert!(sampler.passes_over(0));
    let (mut weights, mut decisions) = (0, 0);
    for turn in 0..10_000 {
        let together = turn % 5;
        decisions += together;
        if !sampler.passes_over(together) {
            weights += (0..together).filter_map(|_| sampler.next(2)).sum::<u32>() as usize;
        }
    }
    assert!((decisions - 8..=decisions).contains(&weights), "{weights} of {decisions}");
}

#[test]
fn samples_are_as_far_apart_as_traffic_is_dense() {
    let mut pace = Pace::default();
    let mut play = |decisions_per_second: u64, samples: u64, from: Time| {
        let (mut now, mut gap_bits) = (from, 0);
        for _ in 0..samples {
            gap_bits = pace.sampled(now);
            now = now.plus(Span::from_ticks((SECOND << gap_bits) / decisions_per_second));
        }
        (gap_bits, now)
    };
    let (all, now) = play(5_000, 10_000, at(0));
    let (some, now) = play(50_000, 10_000, now);
    let (few, now) = play(100_000_000, 20_000, now);
    let (all_again, _) = play(1_000, 1_000, now);
    assert_eq!((all, few, all_again), (0, 10, 0));
    assert!((2..=3).contains(&some), "{some}");
}

/// What changes as one key takes these parts of a shard, in thousandths, at a thousand decisions a second of the shard.
fn check_switch(settings: SwitchSettings, shares: &[u32], want: &str) {
    let (mut switch, mut told) = (Switch::new(settings), String::new());
    for &share in shares {
        let heat = Heat { number: 1, per_second: f64::from(share), share: f64::from(share) / 1_000.0 };
        let rest = Heat { number: 2, per_second: 1.0, share: 0.001 };
        let mut change = '.';
        switch.look([heat, rest].into_iter(), |number, is_hot| {
            assert_eq!(number, 1);
            change = if is_hot { '+' } else { '-' };
        });
        told.push(change);
    }
    assert_eq!(told, want);
}

#[test]
fn a_key_is_hot_from_its_share_on_and_until_half_of_it() {
    let settings = SwitchSettings::default();
    check_switch(settings, &[0, 49, 50, 49, 50, 26, 25, 24, 30, 49, 50], "..+....-..+");
    check_switch(SwitchSettings { share: 0.0, ..settings }, &[0, 500, 1_000], "...");
    // Where there is little to save, no share makes it hot.
    check_switch(SwitchSettings { share: 0.01, ..settings }, &[10, 40, 50, 40, 25, 24, 40], "..+..-.");
}

#[test]
fn a_key_without_a_slot_is_not_hot() {
    let mut switch = Switch::new(SwitchSettings::default());
    switch.look(std::iter::once(Heat { number: 1, per_second: 900.0, share: 0.9 }), |_, _| {});
    assert_eq!(switch.hot().len(), 1);
    let mut ceased = Vec::new();
    switch.look(std::iter::empty(), |number, is_hot| ceased.push((number, is_hot)));
    assert_eq!((ceased, switch.hot().len()), (vec![(1, false)], 0));
}

#[test]
fn so_many_keys_are_hot_at_a_time_and_the_heaviest_first() {
    let mut switch = Switch::new(SwitchSettings { share: 0.000_1, ..SwitchSettings::default() });
    let heat =
        |number: u32| Heat { number: number.into(), per_second: f64::from(100 + number), share: 0.001 };
    switch.look((0..1_000).map(heat), |_, _| {});
    assert_eq!(switch.hot().iter().copied().collect::<Vec<_>>(), (744..1_000).collect::<Vec<_>>());
}
