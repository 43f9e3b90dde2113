//! The fuzz body of index files, called by the tests over damaged files and by `jasper-fuzz`, which includes this file.
//!
//! Any bytes must give a typed error or a graph that can be traversed; a panic is a bug. The body returns whether a
//! graph was read.

use std::fmt::Display;

use jasper_core::{no_progress, with_element};

use jasper_graph::{Graph, Section, check_source};

#[path = "forge.rs"]
pub mod forge;

/// Reads an index file as it is, and with corrected checksums.
pub fn index(bytes: &[u8]) -> bool {
    let mut bytes = bytes.to_vec();
    let mut read = false;
    for _ in 0..2 {
        let report = tell(check_source(&bytes[..], &mut no_progress));
        // Nothing reads the other sections.
        let is_read = |section: Section| !matches!(section, Section::Unused | Section::Unknown(_));
        let intact = report.is_ok_and(|report| !report.damaged().any(is_read));
        let opened = open(&bytes);
        assert!(intact || !opened, "what is opened is intact");
        read |= opened;
        forge::seal(&mut bytes);
    }
    read
}

fn open(bytes: &[u8]) -> bool {
    let Ok(graph) = tell(Graph::read_from(bytes, &mut no_progress)) else { return false };
    // Edges and keys of a file may be wrong, but reading them must not panic.
    graph.check_structure();
    walk(&graph);
    let saved = graph.to_bytes();
    let again = Graph::read_from(&saved[..], &mut no_progress).expect("what is saved can be opened");
    assert!(again.to_bytes() == saved, "the same graph is the same file");
    true
}

/// Does everything that a search does.
fn walk(graph: &Graph) {
    for slot in graph.keys().vertices() {
        let neighbors = graph.adjacency().neighbors(slot);
        if graph.has_vectors() {
            let vectors = graph.vectors();
            vectors.slot_distances(slot, neighbors);
            with_element!(graph.element(), T => {
                vectors.distance_computer::<T>(vectors.padded(slot)).distance_to(slot);
            });
        }
        assert_eq!(graph.keys().keys_of(slot).next().is_some(), graph.keys().is_live(slot));
    }
    graph.adjacency().start_points().iter().for_each(|&start| assert!(!graph.keys().is_free(start)));
    graph.keys().slot_of(0);
}

/// Formats an error, so that messages are tested too.
fn tell<R, E: Display>(result: Result<R, E>) -> Result<R, E> {
    result.inspect_err(|error| assert!(!error.to_string().is_empty()))
}
