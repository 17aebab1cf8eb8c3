//! What must hold of all nodes together, after every event and after the last.

use super::judge::Judge;
use super::network::OnWayBack;
use super::world::{TENDS, World};

impl World<'_> {
    /// Checks that nodes have no more units of any key than they may.
    pub(super) fn check(&self) -> Result<(), String> {
        (0..self.schedule.extras.keys).try_for_each(|key| self.check_key(key))
    }

    fn check_key(&self, key: usize) -> Result<(), String> {
        if self.schedule.has_census {
            let out: u64 = (0..self.nodes.len()).map(|node| self.units_out(node, key)).sum();
            let units_max = self.schedule.units_max();
            return if out <= units_max {
                Ok(())
            } else {
                Err(format!("all nodes together have {out} units of key {key}, and may have {units_max}"))
            };
        }
        let units_max = self.schedule.node_units_max();
        for node in 0..self.nodes.len() {
            let out = self.units_out(node, key);
            if out > units_max {
                return Err(format!("node {node} has {out} units of key {key}, and may have {units_max}"));
            }
        }
        Ok(())
    }

    /// What a node has of a key, here and elsewhere, by its own account or by that of the simulation.
    fn units_out(&self, node: usize, key: usize) -> u64 {
        let (here, out) = self.nodes[node].units(key, self.now);
        out.max(here + self.units_on_way_back(node, key) + self.units_lent(node, key))
    }

    /// What a node has given up and the authority would still take.
    fn units_on_way_back(&self, number: usize, key: usize) -> u64 {
        let (epoch, authority_time) = (self.nodes[number].epoch, self.authority_time());
        let is_its =
            |on_way: &&OnWayBack| on_way.node == number && on_way.epoch == epoch && on_way.key == key;
        // Its clock may have been set back, which no node knows.
        let is_alive = |on_way: &&OnWayBack| {
            authority_time <= on_way.deadline && self.judges[key].is_alive(on_way.lease, self.now)
        };
        self.on_way_back.iter().filter(is_its).filter(is_alive).map(|on_way| on_way.units).sum()
    }

    /// After everything: nothing is left anywhere, and where nothing went wrong, nothing was lost.
    pub(super) fn wind_up(&self) -> Result<(), String> {
        let lost: u64 = self.judges.iter().map(Judge::lost).sum();
        let stated = self.lost_when_put_back;
        if self.schedule.loses_nothing() && self.tend_ns() <= self.schedule.life_ns / TENDS && lost > stated {
            return Err(format!(
                "{lost} units were granted, and neither spent nor given back, {stated} of them too late"
            ));
        }
        if self.schedule.faults.crash == 0 {
            self.judges.iter().try_for_each(Judge::check_used)?;
        }
        for (number, node) in self.nodes.iter().enumerate() {
            for key in 0..self.schedule.extras.keys {
                let (units, out) = node.units(key, self.now);
                let keys = node.purses.keys();
                if (units, out, keys) != (0, 0, 0) {
                    return Err(format!("node {number} still has {units} of {out} units in {keys} purses"));
                }
            }
        }
        Ok(())
    }
}
