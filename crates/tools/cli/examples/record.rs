//! Records what `cargo windlass new` and `add` write and print: `cargo xtask record template`.

use std::env;
use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

#[path = "../tests/cli/recorded.rs"]
mod recorded;

fn main() -> ExitCode {
    // It runs itself as `cargo-windlass`, so that the recorded program is never out of date.
    if env::args().nth(1).is_some_and(|first| first == "windlass") {
        return windlass_cli::cargo_main();
    }
    record().expect("the recordings must be writable");
    ExitCode::SUCCESS
}

fn record() -> io::Result<()> {
    let program = env::current_exe()?;
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    fs::write(package.join("tests/recordings/blog-operator.txt"), recorded::blog(&program))?;

    let shop = package.join("template-added");
    let made = recorded::shop_with_everything(&program);
    for folder in recorded::FOLDERS {
        fs::remove_dir_all(shop.join(folder))?;
    }
    for (path, text) in made {
        let path = shop.join(path);
        fs::create_dir_all(path.parent().unwrap_or(&shop))?;
        fs::write(path, text)?;
    }
    Ok(())
}
