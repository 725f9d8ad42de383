//! A browser driven through WebDriver: as much of the protocol as these tests speak.
//!
//! WebDriver is JSON over HTTP, so the program's own HTTP client does; a client crate would add
//! an asynchronous runtime's worth of packages for a dozen calls.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use serde_json::{Value, json};

/// How long anything on the page may take.
const PATIENCE: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(20);
/// The key of element references in WebDriver.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// Keys that have no character.
pub(crate) const ENTER: &str = "\u{E007}";
pub(crate) const ESCAPE: &str = "\u{E00C}";
pub(crate) const RIGHT: &str = "\u{E014}";
pub(crate) const DOWN: &str = "\u{E015}";
pub(crate) const SPACE: &str = " ";

/// A program on the search path.
fn on_path(names: &[&str]) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let mut places = std::env::split_paths(&folders)
        .flat_map(|folder| names.iter().map(move |name| folder.join(name)));
    places.find(|place| place.is_file())
}

/// Chromium and its driver, or what is missing.
pub(crate) fn programs() -> Result<(PathBuf, PathBuf), String> {
    let browser = on_path(&["chromium", "chromium-browser", "google-chrome"]);
    let driver = on_path(&["chromedriver"]);
    match (browser, driver) {
        (Some(browser), Some(driver)) => Ok((browser, driver)),
        (None, _) => Err("chromium is not installed".into()),
        (_, None) => Err("chromedriver is not installed".into()),
    }
}

/// Sends JSON to an address; returns status and body.
pub(crate) fn ask(method: &str, url: &str, body: Option<&Value>) -> (u16, Value) {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(Duration::from_secs(30)))
        .http_status_as_error(false)
        .build()
        .into();
    let answer = match (method, body) {
        ("GET", _) => agent.get(url).call(),
        ("DELETE", _) => agent.delete(url).call(),
        (_, body) => agent
            .post(url)
            .header("content-type", "application/json")
            .send(body.map_or_else(|| "{}".to_owned(), Value::to_string)),
    };
    let mut answer = answer.unwrap_or_else(|why| panic!("{method} {url}: {why}"));
    let text = answer.body_mut().read_to_string().unwrap();
    (answer.status().as_u16(), serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

/// The driver's process; it and its browsers end with this.
pub(crate) struct Driver {
    process: Child,
    url: String,
    browser: PathBuf,
}

impl Driver {
    pub(crate) fn start((browser, driver): (PathBuf, PathBuf)) -> Driver {
        let mut process = Command::new(driver)
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let said = |line: &String| line.contains("started successfully on port");
        let line = lines.find_map(|line| line.ok().filter(said));
        let line = line.expect("chromedriver says its port");
        let port: String = line.chars().filter(char::is_ascii_digit).collect();
        std::thread::spawn(move || lines.for_each(drop));
        Driver { process, url: format!("http://127.0.0.1:{port}"), browser }
    }

    /// A browser of its own, with nothing remembered.
    pub(crate) fn browser(&self) -> Browser {
        let profile = tempfile::tempdir().unwrap();
        let flags = [
            "--headless",
            // Chromium's sandbox does not work as root, where continuous integration runs.
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--window-size=1280,860",
        ];
        let mut flags: Vec<String> = flags.map(str::to_owned).into();
        flags.push(format!("--user-data-dir={}", profile.path().display()));
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": {"binary": self.browser, "args": flags},
            "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        let (status, answer) = ask("POST", &format!("{}/session", self.url), Some(&wanted));
        assert_eq!(status, 200, "no browser: {answer}");
        let id = answer["value"]["sessionId"].as_str().unwrap();
        let browser =
            Browser { session: format!("{}/session/{id}", self.url), _profile: profile };
        browser.size(1280, 860);
        browser
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// One browser window.
pub(crate) struct Browser {
    session: String,
    _profile: tempfile::TempDir,
}

impl Browser {
    fn post(&self, what: &str, body: &Value) -> Value {
        let (status, mut answer) =
            ask("POST", &format!("{}/{what}", self.session), Some(body));
        assert_eq!(status, 200, "{what} {body}: {answer}");
        answer["value"].take()
    }

    pub(crate) fn open(&self, url: &str) {
        self.post("url", &json!({"url": url}));
        self.until("the page is ready", "return document.body.matches('.ready')");
    }

    pub(crate) fn reload(&self) {
        self.post("refresh", &json!({}));
        self.until("the page is ready again", "return document.body.matches('.ready')");
    }

    pub(crate) fn back(&self) {
        self.post("back", &json!({}));
    }

    pub(crate) fn url(&self) -> String {
        self.run("return location.href").as_str().unwrap().to_owned()
    }

    /// The result of a script.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.post("execute/sync", &json!({"script": script, "args": []}))
    }

    /// Waits until a script returns a value, and returns it.
    pub(crate) fn until(&self, what: &str, script: &str) -> Value {
        let began = Instant::now();
        loop {
            let value = self.run(script);
            if !matches!(value, Value::Null | Value::Bool(false)) {
                return value;
            }
            if began.elapsed() > PATIENCE {
                self.shot("failed");
                panic!(
                    "never came true: {what}\n{script}\nat {}\nthe page says: {}",
                    self.url(),
                    self.run("return document.body.innerText.slice(0, 2000)")
                );
            }
            std::thread::sleep(POLL);
        }
    }

    fn element(&self, css: &str) -> String {
        self.until(css, &format!("return document.querySelector({})", json!(css)));
        let found = self.post("element", &json!({"using": "css selector", "value": css}));
        found[ELEMENT].as_str().unwrap().to_owned()
    }

    pub(crate) fn click(&self, css: &str) {
        self.post(&format!("element/{}/click", self.element(css)), &json!({}));
    }

    /// Types into an element; into a file field, the path of a file.
    pub(crate) fn fill(&self, css: &str, text: &str) {
        self.post(&format!("element/{}/value", self.element(css)), &json!({"text": text}));
    }

    /// Presses keys one after the other, wherever the focus is.
    pub(crate) fn keys(&self, keys: &str) {
        let press = |key: char| {
            [
                json!({"type": "keyDown", "value": key}),
                json!({"type": "keyUp", "value": key}),
            ]
        };
        let actions: Vec<Value> = keys.chars().flat_map(press).collect();
        self.post(
            "actions",
            &json!({"actions": [{"type": "key", "id": "keys", "actions": actions}]}),
        );
    }

    /// Moves the mouse along points given relative to the middle of an element, button down
    /// from the first to the last.
    pub(crate) fn drag(&self, css: &str, points: &[(i32, i32)]) {
        let origin = json!({ELEMENT: self.element(css)});
        let go = |&(x, y): &(i32, i32)| json!({"type": "pointerMove", "duration": 8, "origin": origin, "x": x, "y": y});
        let mut actions: Vec<Value> = points.iter().map(go).collect();
        actions.insert(1, json!({"type": "pointerDown", "button": 0}));
        actions.push(json!({"type": "pointerUp", "button": 0}));
        self.mouse(&actions);
    }

    pub(crate) fn hover(&self, css: &str) {
        let origin = json!({ELEMENT: self.element(css)});
        self.mouse(&[
            json!({"type": "pointerMove", "duration": 0, "origin": origin, "x": 0, "y": 0}),
        ]);
    }

    fn mouse(&self, actions: &[Value]) {
        let mouse = json!({"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": actions});
        self.post("actions", &json!({"actions": [mouse]}));
    }

    /// Shows the page as a screen of this size would (a window cannot be as narrow as a phone).
    pub(crate) fn size(&self, width: u32, height: u32) {
        let params = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        let command =
            json!({"cmd": "Emulation.setDeviceMetricsOverride", "params": params});
        self.post("goog/cdp/execute", &command);
    }

    /// Messages of the browser since the last call: script errors, rejected
    /// resources, breaches of the page's policy.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let log = self.post("se/log", &json!({"type": "browser"}));
        let severe =
            |entry: &&Value| entry["level"] == "SEVERE" || entry["source"] == "security";
        let entries = log.as_array().unwrap().iter().filter(severe);
        entries.map(|entry| entry["message"].to_string()).collect()
    }

    /// Writes a screenshot of the page to the folder CROSSHASH_SHOTS, if it is set.
    pub(crate) fn shot(&self, name: &str) {
        let Some(folder) = std::env::var_os("CROSSHASH_SHOTS") else { return };
        let began = Instant::now();
        let loaded = "return [...document.images].every((img) => img.complete || img.loading === 'lazy' && img.getBoundingClientRect().top > innerHeight)";
        while self.run(loaded) == false && began.elapsed() < PATIENCE {
            std::thread::sleep(POLL);
        }
        let (_, answer) = ask("GET", &format!("{}/screenshot", self.session), None);
        let png = base64::engine::general_purpose::STANDARD
            .decode(answer["value"].as_str().unwrap())
            .unwrap();
        fs_err::create_dir_all(&folder).unwrap();
        fs_err::write(Path::new(&folder).join(format!("{name}.png")), png).unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Not `ask`, which would panic: a failed test must still end the others' browsers.
        let _ = ureq::delete(&self.session).call();
    }
}
