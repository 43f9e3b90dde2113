//! Merging one index into another.

use crate::common::Sandbox;

#[test]
fn an_index_is_merged_into_another() {
    let sandbox = Sandbox::with_index();
    sandbox.vectors::<u8>("more.u8bin", 40, 2);
    sandbox.write("keys.txt", (1000..1040).map(|key| format!("{key}\n")).collect::<String>());
    let build = ["build", "--base", "more.u8bin", "--metric", "l2", "--keys", "keys.txt"];
    sandbox.ok(&[&build[..], &["--output", "more.jasper"]].concat());
    let other = sandbox.read("more.jasper");
    let merge = ["merge", "vectors.jasper", "--from", "more.jasper", "--output", "both.jasper"];
    let merged = sandbox.one(&merge);
    assert_eq!([&merged["merged"], &merged["vectors"]], [40, 440]);
    assert!(sandbox.read("more.jasper") == other);
    let found = sandbox.ok(&["search", "both.jasper", "--queries", "more.u8bin"]);
    assert!((1000..).zip(found).all(|(key, line)| line["keys"][0] == key));
    let again = ["merge", "both.jasper", "--from", "more.jasper"];
    let error = sandbox.fails(1, &again);
    assert!(error.contains("key 1000 is in both indexes"), "{error}");
    let error =
        sandbox.fails(1, &["merge", "both.jasper", "--from", "more.jasper", "--output", "more.jasper"]);
    assert!(error.contains("more.jasper"), "{error}");
}
