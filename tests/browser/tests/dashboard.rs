//! The dashboard in Chromium, used as a person does, with live operators.

use std::path::Path;

use anyhow::{Result, ensure};
use windlass_browser_tests::{Browser, Operator, Page, SCHEMES, SIZES, VIEWS, violations};

/// The website operator on the embedded cluster.
fn website_operator() -> Result<Operator> {
    Operator::start("website-operator", &["--dashboard", "127.0.0.1:0"])
}

async fn open(browser: &Browser, operator: &Operator) -> Result<Page> {
    let page = browser.open(operator.url()).await?;
    page.look(SIZES[0], SCHEMES[0]).await?;
    Ok(page)
}

/// Opens the dashboard of the website operator, and waits until the shop has been reconciled:
/// before, the server answers 404, which the browser logs as an error.
async fn open_with_shop(browser: &Browser, operator: &Operator) -> Result<Page> {
    let page = open(browser, operator).await?;
    page.go("#/runs?search=default%2Fshop").await?;
    page.wait_until("document.querySelector('.list-row a[href*=\"default%2Fshop\"]')").await?;
    Ok(page)
}

fn ensure_no_errors(page: &Page) -> Result<()> {
    let errors = page.take_errors();
    ensure!(errors.is_empty(), "the console has errors: {errors:#?}");
    Ok(())
}

/// Returns an expression for the button with this text prefix.
fn button(text: &str) -> String {
    format!(
        "[...document.querySelectorAll('button, a.button')]\
         .find(button => button.textContent.startsWith('{text}'))"
    )
}

/// Returns an expression that changes a field, and sends the event that a browser then sends.
fn fill(selector: &str, value: &str, event: &str) -> String {
    format!(
        "(field => {{ field.value = '{value}'; \
         field.dispatchEvent(new Event('{event}', {{ bubbles: true }})); \
         return true; }})(document.querySelector('{selector}'))"
    )
}

#[tokio::test]
async fn every_view_is_accessible_and_draws_without_errors() -> Result<()> {
    let pictures = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/pictures");
    std::fs::create_dir_all(&pictures)?;
    let (operator, browser) = (website_operator()?, Browser::start().await?);
    let page = open_with_shop(&browser, &operator).await?;
    for size in SIZES {
        for scheme in SCHEMES {
            page.look(size, scheme).await?;
            for view in VIEWS {
                view.open(&page).await?;
                page.picture(&view.file(&pictures, size, scheme)).await?;
                let found = violations(&page).await?;
                ensure!(found.is_empty(), "{} {size:?} {scheme:?}: {found:#?}", view.name);
                let overflow: f64 =
                    page.evaluate("document.documentElement.scrollWidth - innerWidth").await?;
                ensure!(overflow <= 0.0, "{} is wider than {size:?}: by {overflow}", view.name);
            }
        }
    }
    ensure_no_errors(&page)
}

#[tokio::test]
async fn story_leads_from_a_website_to_the_controllers_that_it_woke() -> Result<()> {
    let (operator, browser) = (website_operator()?, Browser::start().await?);
    let page = open_with_shop(&browser, &operator).await?;
    // From the list of a controller to a key, and from there to its story.
    page.go("#/queue?controller=website&search=shop").await?;
    page.click(".list-row a[href*='default%2Fshop']").await?;
    page.click("a.button[href*='story']").await?;
    let node = |controller: &str| {
        format!(
            "[...document.querySelectorAll('.graph .node')].find(node => \
             node.querySelector('.node-head').textContent.startsWith('{controller}'))"
        )
    };
    page.wait_until(&node("website")).await?;
    page.wait_until(&node("deployment")).await?;
    // A run of the website that triggered a run of another controller: selected in the graph with
    // the keyboard.
    page.evaluate::<bool>(&format!("({}.focus(), true)", node("website"))).await?;
    page.press("Enter").await?;
    page.wait_until("document.querySelector('.story-details')").await?;
    let woken = "[...document.querySelectorAll('.story-details button.link')]\
                 .find(link => !link.textContent.startsWith('website '))";
    page.wait_until(woken).await?;
    page.evaluate::<bool>(&format!("({woken}.click(), true)")).await?;
    page.wait_until(
        "!document.querySelector('.story-details h2').textContent.startsWith('website ')",
    )
    .await?;
    // Back to the run that triggered it.
    page.wait_until(
        "[...document.querySelectorAll('.story-details button.link')]\
         .some(link => link.textContent.startsWith('website default/shop'))",
    )
    .await?;
    ensure_no_errors(&page)
}

#[tokio::test]
async fn held_story_loads_as_many_runs_as_are_chosen() -> Result<()> {
    let (operator, browser) = (website_operator()?, Browser::start().await?);
    let page = open_with_shop(&browser, &operator).await?;
    // The story has several runs, of which one is shown at first.
    let story = VIEWS.iter().find(|view| view.name == "story").expect("a view");
    story.open(&page).await?;
    page.go("#/story?kind=Website&key=default%2Fshop&limit=1").await?;
    let runs = "document.querySelectorAll('.story-list > ol > li').length";
    page.wait_until(&format!("{runs} === 1")).await?;
    page.evaluate::<bool>(&format!("({}.click(), true)", button("Hold"))).await?;
    page.wait_until(&button("Go live")).await?;
    page.evaluate::<bool>(&fill("main select", "30", "change")).await?;
    page.wait_until(&format!("{runs} > 1")).await?;
    // Live updates are still paused.
    page.wait_until(&button("Go live")).await?;
    ensure_no_errors(&page)
}

#[tokio::test]
async fn search_that_is_not_applied_yet_leaves_the_next_view_alone() -> Result<()> {
    let (operator, browser) = (website_operator()?, Browser::start().await?);
    let page = open_with_shop(&browser, &operator).await?;
    for route in ["#/queue?controller=website", "#/runs"] {
        page.go("#/informers").await?;
        page.wait_until("document.querySelector('.view-informers')").await?;
        page.go(route).await?;
        page.wait_until("document.querySelector('main [data-search]')").await?;
        let typed = fill("main [data-search]", "shop", "input");
        // The search is applied 250 ms after the last key press. A later timer with a longer delay
        // fires after that.
        let address: String = page
            .evaluate(&format!(
                "({typed}, location.hash = '#/informers', \
                 new Promise(done => setTimeout(() => done(location.hash), 500)))"
            ))
            .await?;
        ensure!(address == "#/informers", "{route}: {address}");
    }
    ensure_no_errors(&page)
}

#[tokio::test]
async fn empty_list_says_whether_that_is_because_of_the_filter() -> Result<()> {
    let (operator, browser) = (website_operator()?, Browser::start().await?);
    let page = open_with_shop(&browser, &operator).await?;
    page.go("#/queue?controller=deployment&state=resting&search=nothing").await?;
    page.wait_for_text("Nothing matches the filter.").await?;
    page.evaluate::<bool>(&fill("main [data-search]", "", "input")).await?;
    page.wait_for_text("No key rests.").await?;
    ensure_no_errors(&page)
}

#[tokio::test]
async fn address_of_no_view_shows_the_overview() -> Result<()> {
    let (operator, browser) = (website_operator()?, Browser::start().await?);
    let page = open_with_shop(&browser, &operator).await?;
    // Two of these are properties of every JavaScript object.
    for route in ["#/toString", "#/constructor", "#/nothing"] {
        page.go("#/informers").await?;
        page.wait_until("document.querySelector('.view-informers')").await?;
        page.go(route).await?;
        page.wait_until("document.querySelectorAll('.view-overview .card').length > 2").await?;
    }
    ensure_no_errors(&page)
}

#[tokio::test]
async fn run_now_asks_first_and_is_a_cause() -> Result<()> {
    let (operator, browser) = (website_operator()?, Browser::start().await?);
    let page = open_with_shop(&browser, &operator).await?;
    page.go("#/key?controller=website&key=default%2Fshop").await?;
    page.wait_until(&button("Run now")).await?;
    page.evaluate::<bool>(&format!("({}.click(), true)", button("Run now"))).await?;
    page.wait_for_text("Run default/shop now?").await?;
    page.click("#dialog .primary").await?;
    page.wait_for_text("default/shop was added to the queue.").await?;
    page.wait_for_text("dashboard").await?;
    ensure_no_errors(&page)
}

#[tokio::test]
async fn action_that_fails_after_its_dialog_was_closed_is_reported() -> Result<()> {
    let (operator, browser) = (website_operator()?, Browser::start().await?);
    let page = open_with_shop(&browser, &operator).await?;
    page.go("#/key?controller=website&key=default%2Fshop").await?;
    page.wait_until(&button("Run now")).await?;
    // The action stays in progress until the test makes it fail.
    page.evaluate::<bool>(
        "(send => { window.fetch = (path, options) => options?.method === 'POST' \
         ? new Promise((_, refuse) => { window.refuse = refuse; }) : send(path, options); \
         return true; })(window.fetch)",
    )
    .await?;
    page.evaluate::<bool>(&format!("({}.click(), true)", button("Run now"))).await?;
    page.click("#dialog .primary").await?;
    page.wait_until("window.refuse").await?;
    // Closes it as Esc does.
    page.evaluate::<bool>("(document.getElementById('dialog').close(), true)").await?;
    page.evaluate::<bool>("(window.refuse(new TypeError('lost')), true)").await?;
    page.wait_for_text("Run now failed: no connection to the manager").await?;
    ensure_no_errors(&page)
}

#[tokio::test]
async fn object_is_paused_and_resumed() -> Result<()> {
    let (operator, browser) = (website_operator()?, Browser::start().await?);
    let page = open_with_shop(&browser, &operator).await?;
    page.go("#/key?controller=website&key=default%2Fshop").await?;
    for (now, then) in [("Pause", "Resume"), ("Resume", "Pause")] {
        page.wait_until(&button(now)).await?;
        page.evaluate::<bool>(&format!("({}.click(), true)", button(now))).await?;
        page.click("#dialog .primary").await?;
        page.wait_until(&button(then)).await?;
    }
    ensure_no_errors(&page)
}

#[tokio::test]
async fn hundred_thousand_keys_need_few_rows() -> Result<()> {
    let operator = Operator::start("dashboard-load", &["--dashboard", "127.0.0.1:0"])?;
    let browser = Browser::start().await?;
    let page = open(&browser, &operator).await?;
    page.go("#/informers").await?;
    page.wait_for_text("100,000").await?;
    page.go("#/queue?controller=settings").await?;
    page.wait_for_text("100,000 keys").await?;
    let rows = "document.querySelectorAll('.list-row').length";
    for place in ["0", "0.5", "1"] {
        let list = "document.querySelector('.list')";
        let scroll = format!("({list}.scrollTop = {list}.scrollHeight * {place}, true)");
        page.evaluate::<bool>(&scroll).await?;
        // The visible rows have arrived.
        page.wait_until("![...document.querySelectorAll('.list-row')].some(row => row.textContent.includes('…'))")
            .await?;
        let count: usize = page.evaluate(rows).await?;
        ensure!((1..=200).contains(&count), "{count} rows at {place}");
    }
    page.wait_for_text("settings-099999").await?;
    page.type_into("main [data-search]", "settings-054321").await?;
    page.wait_until(&format!("{rows} === 1")).await?;
    ensure_no_errors(&page)
}

#[tokio::test]
async fn page_without_a_token_asks_for_it() -> Result<()> {
    let (operator, browser) = (website_operator()?, Browser::start().await?);
    let (address, token) = operator.url().split_once("#token=").expect("a token");
    let page = browser.open(address).await?;
    page.type_into(".token-form input", token).await?;
    page.press("Enter").await?;
    VIEWS[0].open(&page).await?;
    // The token does not stay in the address bar.
    let url: String = page.evaluate("location.href").await?;
    ensure!(!url.contains(token), "{url}");
    ensure_no_errors(&page)
}

#[tokio::test]
async fn page_with_a_token_that_cannot_be_decoded_asks_for_it() -> Result<()> {
    let (operator, browser) = (website_operator()?, Browser::start().await?);
    let (address, token) = operator.url().split_once("#token=").expect("a token");
    let page = browser.open(&format!("{address}#token=%")).await?;
    page.type_into(".token-form input", token).await?;
    page.press("Enter").await?;
    VIEWS[0].open(&page).await?;
    ensure_no_errors(&page)
}

#[tokio::test]
async fn page_comes_back_with_its_server() -> Result<()> {
    let (operator, browser) = (website_operator()?, Browser::start().await?);
    let page = open(&browser, &operator).await?;
    VIEWS[0].open(&page).await?;
    operator.freeze()?;
    page.wait_for_text("Disconnected, retrying").await?;
    operator.thaw()?;
    page.wait_until("!document.body.innerText.includes('Disconnected')").await?;
    VIEWS[0].open(&page).await
}
