//! What is missing, and what is too much.

use std::fmt;

use super::access::Access;
use super::evidence::Needs;

/// The difference between what is needed and what is granted.
#[derive(Debug)]
pub(super) struct Difference {
    /// What is needed and not granted, and what needs it.
    pub(super) missing: Vec<(Access, String)>,
    /// What is granted and not needed, or not to this extent, and why.
    pub(super) excess: Vec<(Access, String)>,
}

impl Difference {
    pub(super) fn between(needs: &Needs, grants: &[Access]) -> Self {
        let missing = needs
            .iter()
            .filter(|(need, _)| !grants.iter().any(|grant| grant.covers(need)))
            .map(|(need, reason)| (need.clone(), reason.clone()))
            .collect();
        let mut excess = Vec::new();
        for grant in grants {
            if needs.keys().any(|need| grant.is_for(need)) {
                continue;
            }
            let used: Vec<String> = needs
                .keys()
                .filter(|need| grant.covers(need))
                .map(|need| format!("`{need}`"))
                .collect();
            excess.push((
                grant.clone(),
                match used.as_slice() {
                    [] => "nothing needs it".to_owned(),
                    used => format!("all that is needed of it is {}", used.join(", ")),
                },
            ));
        }
        excess.sort();
        excess.dedup();
        Self { missing, excess }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.excess.is_empty()
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (access, reason) in &self.missing {
            writeln!(f, "+ {access} is missing: {reason}")?;
        }
        for (access, reason) in &self.excess {
            writeln!(f, "- {access} is too much: {reason}")?;
        }
        Ok(())
    }
}
