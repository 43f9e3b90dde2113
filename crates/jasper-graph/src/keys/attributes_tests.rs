//! Attributes follow their keys.

use std::sync::Arc;

use jasper_attributes::{Expression, Frame, Value, column};
use jasper_core::{Key, Slot};

use super::{KeyError, KeyMap};

fn frame(tenants: &[&str]) -> Frame {
    Frame::new(tenants.len()).column("tenant", tenants.iter().map(|&tenant| Value::from(tenant))).unwrap()
}

/// A map of these keys, each with a slot of its own.
fn map(keys: impl IntoIterator<Item = Key>) -> KeyMap {
    let keys: Vec<Key> = keys.into_iter().collect();
    let mut map = KeyMap::new();
    map.resize(keys.len()).unwrap();
    map.occupy(&[], 0..keys.len());
    map.assign_first(keys.iter().enumerate().map(|(slot, &key)| (key, Slot::from_index(slot))));
    map
}

fn selected(map: &KeyMap, expression: &Expression) -> Vec<Key> {
    let predicate = map.attributes().bind(expression).unwrap();
    let mut keys: Vec<Key> = predicate.select();
    keys.sort_unstable();
    let live = map.live_slots().flat_map(|slot| map.keys_of(slot));
    let mut matching: Vec<Key> = live.filter(|&key| predicate.matches(key)).collect();
    matching.sort_unstable();
    assert_eq!(keys, matching);
    let slots: Vec<Slot> = map.slots_where(&predicate);
    assert!(slots.iter().all(|&slot| map.keys_of(slot).any(|key| predicate.matches(key))));
    keys
}

#[test]
fn a_key_has_its_attributes_while_it_is_live() {
    let mut map = map([7, 8, 1 << 40]);
    map.set_attributes(&[7, 1 << 40], &frame(&["a", "b"])).unwrap();
    let of = |tenant: &str| column("tenant").eq(tenant);
    let unset = column("tenant").is_null();
    assert_eq!((selected(&map, &of("a")), selected(&map, &of("b"))), (vec![7], vec![1 << 40]));
    assert_eq!(selected(&map, &unset), [8]);

    let before = map.share();
    map.delete(7).unwrap();
    assert_eq!((selected(&map, &of("a")), selected(&before, &of("a"))), (vec![], vec![7]));
    map.restore(7).unwrap();
    assert_eq!(selected(&map, &of("a")), [7]);
    // A new vector under the key has none of the attributes of the old one.
    map.delete(7).unwrap();
    map.assign(7, Slot::new(0)).unwrap();
    assert_eq!((selected(&map, &of("a")), selected(&map, &unset)), (vec![], vec![7, 8]));
    // A second key of a vertex has attributes of its own.
    map.assign(9, Slot::new(0)).unwrap();
    map.set_attributes(&[9], &frame(&["a"])).unwrap();
    assert_eq!((selected(&map, &of("a")), selected(&map, &unset)), (vec![9], vec![7, 8]));

    map.delete(8).unwrap();
    map.release_tombstones();
    assert_eq!(map.restore(8), Err(KeyError::Unknown(8)));
    map.assign(8, Slot::new(0)).unwrap();
    assert_eq!(selected(&map, &unset), [7, 8]);
}

#[test]
fn a_rollback_restores_attributes() {
    let mut map = map(0..4);
    map.set_attributes(&[0, 1, 2], &frame(&["a", "a", "b"])).unwrap();
    let of = |tenant: &str| column("tenant").eq(tenant);
    map.begin();
    map.delete(0).unwrap();
    map.set_attributes(&[1, 3], &frame(&["b", "c"])).unwrap();
    map.resize(5).unwrap();
    map.occupy(&[], 4..5);
    map.assign(9, Slot::new(4)).unwrap();
    map.set_attributes(&[9], &frame(&["a"])).unwrap();
    assert_eq!((selected(&map, &of("a")), selected(&map, &of("b"))), (vec![9], vec![1, 2]));
    map.rollback();
    assert_eq!((selected(&map, &of("a")), selected(&map, &of("b"))), (vec![0, 1], vec![2]));
    assert!(selected(&map, &of("c")).is_empty());
}

#[test]
fn an_id_belongs_to_one_live_key() {
    let ids = |ids: &[&str]| {
        let values = ids.iter().map(|&id| Value::from(id));
        Frame::new(ids.len()).column_of("id", jasper_attributes::ColumnKind::Id, values).unwrap()
    };
    let mut map = map(0..3);
    map.set_attributes(&[0, 1], &ids(&["x", "y"])).unwrap();
    assert!(map.set_attributes(&[2], &ids(&["x"])).is_err());
    assert_eq!(map.attributes().key_of_id("x"), Some(0));
    map.delete(0).unwrap();
    assert_eq!(map.attributes().key_of_id("x"), None);
    map.set_attributes(&[2], &ids(&["x"])).unwrap();
    assert_eq!(map.restore(0), Err(KeyError::IdTaken(0)));
    map.delete(2).unwrap();
    map.restore(0).unwrap();
    assert_eq!(map.attributes().key_of_id("x"), Some(0));
}

#[test]
fn slots_of_expressions_are_kept_until_keys_or_attributes_change() {
    let mut map = map(0..3);
    map.set_attributes(&[0, 1, 2], &frame(&["a", "a", "b"])).unwrap();
    let expression = column("tenant").eq("a");
    let slots =
        |map: &KeyMap| map.allowed_slots_where(&expression, &map.attributes().bind(&expression).unwrap());
    let listed = |map: &KeyMap| slots(map).slots().iter().collect::<Vec<_>>();
    let first = slots(&map);
    assert!(Arc::ptr_eq(&first, &slots(&map)));
    assert_eq!(listed(&map), [0, 1]);
    map.set_attributes(&[2], &frame(&["a"])).unwrap();
    assert_eq!(listed(&map), [0, 1, 2]);
    map.delete(0).unwrap();
    assert_eq!(listed(&map), [1, 2]);
    assert_eq!(first.slots().iter().collect::<Vec<_>>(), [0, 1]);
}
