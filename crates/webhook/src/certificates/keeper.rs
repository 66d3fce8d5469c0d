//! Keeps the Secret, the bundles and the served certificate right, pass by pass.
//!
//! A pass reads the bundles, then the Secret, writes the Secret if the plan wants another content,
//! then writes the bundles, then serves. Each write has the version that was read, so two replicas
//! never overwrite each other: the loser begins again.
//!
//! The order matters. A bundle with a new certificate is written after that certificate is in the
//! Secret. So a replica that has read the Secret without it has read an older version of the
//! bundle before, and its write fails: nobody takes a certificate back out of a bundle by being
//! late.

use tokio::time::Instant;

use super::api::{Address, Refusal, Requests};
use super::authority::{Authority, Certificate, MakeError};
use super::clock::Clock;
use super::error::CertificatesError;
use super::plan::{Authorities, Situation};
use super::schedule::Schedule;
use super::secret::Stored;
use super::served::Served;
use super::target::Target;

/// How often a pass begins again at once. Each conflict means that another replica got further.
const ATTEMPTS_MAX: usize = 5;

/// The state of one replica.
pub(super) struct Keeper {
    pub(super) requests: Requests,
    pub(super) secret: Address,
    pub(super) names: Vec<String>,
    pub(super) targets: Vec<Target>,
    pub(super) schedule: Schedule,
    pub(super) clock: Clock,
    pub(super) served: Served,
    /// What the Secret contained when it was read or written last.
    pub(super) held: Option<Authorities>,
    /// Since when the next certificate is in all bundles, as far as this replica has seen.
    pub(super) published: Option<(Certificate, Instant)>,
}

/// Why a pass has not reached its end.
enum Unfinished {
    /// Somebody else wrote this.
    Conflict(Address),
    Failed(CertificatesError),
}

impl Keeper {
    /// Passes until one is not disturbed by others.
    pub(super) async fn check(&mut self) -> Result<(), CertificatesError> {
        let mut object = String::new();
        for _ in 0..ATTEMPTS_MAX {
            match self.pass().await {
                Ok(()) => return Ok(()),
                Err(Unfinished::Failed(error)) => return Err(error),
                Err(Unfinished::Conflict(address)) => object = address.to_string(),
            }
        }
        Err(CertificatesError::Contended { object, attempts: ATTEMPTS_MAX })
    }

    async fn pass(&mut self) -> Result<(), Unfinished> {
        // One bundle that cannot be read or written must not keep the others from being right.
        let mut failure = None;
        for target in &mut self.targets {
            if let Err(refusal) = target.read(&self.requests).await {
                failure = failure.or(Some(Unfinished::new(refusal, &target.address)));
            }
        }
        self.published.take_if(|(next, _)| {
            failure.is_some() || !self.targets.iter().all(|target| target.contains(&next.pem))
        });

        let authorities = self.share().await?;
        let bundle = authorities.bundle();
        let (current, next) = (authorities.current.clone(), authorities.next.clone());
        self.held = Some(authorities);
        self.served.set_bundle(&bundle);
        let mut conflict = None;
        for target in &mut self.targets {
            match target.write(&bundle, &self.requests).await {
                Ok(true) => tracing::info!("the caBundle of {} was set", target.address),
                Ok(false) => {}
                Err(refusal) => match Unfinished::new(refusal, &target.address) {
                    failed @ Unfinished::Failed(_) => failure = failure.or(Some(failed)),
                    conflicted @ Unfinished::Conflict(_) => conflict = Some(conflicted),
                },
            }
        }
        // What is not in all bundles yet is served only if it cannot be brought there.
        if let Some(conflict) = conflict {
            return Err(conflict);
        }
        self.serve(&current)?;
        self.note_published(next.as_ref().filter(|_| failure.is_none()));
        failure.map_or(Ok(()), Err)
    }

    /// Reads the Secret, and writes it if it should contain something else.
    async fn share(&self) -> Result<Authorities, Unfinished> {
        let refused = |refusal| Unfinished::new(refusal, &self.secret);
        let stored = Stored::read(&self.requests, &self.secret).await.map_err(refused)?;
        // After an answer, so that the API server's clock is known.
        let times = self.clock.times();
        let situation = Situation {
            schedule: self.schedule,
            times,
            held: self.held.as_ref(),
            published: self.published.as_ref().map(|(next, since)| (next, since.elapsed())),
        };
        let mut found = stored.found();
        // Somebody may have deleted the Secret, or restored an old one. Replicas that have not
        // noticed go on serving what the bundles trust, so it stays trusted until it has expired.
        found.previous.extend(self.targets.iter().flat_map(Target::trusted));
        let make = || Authority::make(self.schedule.validity(times.now)).map_err(Unfinished::from);
        let authorities = situation.plan(found, make)?;
        let is_written =
            stored.write(&authorities, &self.requests, &self.secret).await.map_err(refused)?;
        if is_written {
            let until = authorities.current.certificate.not_after;
            let next = authorities.next.as_ref().map(|next| next.certificate.not_after);
            tracing::info!(
                "{} was written: its certificate authority is valid until {until}{}",
                self.secret,
                next.map(|next| format!(", the next one until {next}")).unwrap_or_default(),
            );
        }
        Ok(authorities)
    }

    /// Presents a certificate that this authority signs, if it is not in use already.
    fn serve(&self, authority: &Authority) -> Result<(), Unfinished> {
        let issuer = &authority.certificate;
        if !self.served.is_signed_by(issuer) {
            self.served.set_leaf(authority.sign(&self.names)?, issuer.clone());
            tracing::info!("a new certificate is served, valid until {}", issuer.not_after);
        }
        Ok(())
    }

    /// Begins to count when the next certificate is in all bundles, and again if it was not.
    fn note_published(&mut self, next: Option<&Authority>) {
        let Some(next) = next.map(|next| &next.certificate) else {
            self.published = None;
            return;
        };
        if self.published.as_ref().is_none_or(|(published, _)| published != next) {
            self.published = Some((next.clone(), Instant::now()));
        }
    }
}

impl Unfinished {
    fn new(refusal: Refusal, address: &Address) -> Self {
        match refusal {
            Refusal::Failed(error) => Self::Failed(error),
            Refusal::Conflict | Refusal::NotFound => Self::Conflict(address.clone()),
        }
    }
}

impl From<MakeError> for Unfinished {
    fn from(error: MakeError) -> Self {
        Self::Failed(CertificatesError::NotMade { reason: error.to_string() })
    }
}
