//! The reader of runbooks, called over damaged files by the tests, and by `jasper-fuzz`, which includes this file.

use jasper_runbook::Runbook;

/// Reads the runbook of the only data set. Any bytes must give a typed error or a sound runbook; a panic is a bug.
pub fn runbook(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Runbook::from_text("runbook.yaml", text, None) {
        Ok(runbook) => {
            let again = Runbook::from_text("again.yaml", &runbook.to_string(), Some(runbook.dataset()));
            let steps = |runbook: &Runbook| {
                runbook.steps().iter().map(|step| (step.number, step.operation.clone())).collect::<Vec<_>>()
            };
            assert_eq!(again.ok().as_ref().map(steps), Some(steps(&runbook)));
            assert!(runbook.max_points() <= runbook.rows());
        }
        Err(error) => assert!(error.to_string().starts_with("runbook.yaml: ")),
    }
}
