//! Lists of bans and boosts: those in force, and on demand those that are over.

use tollgate_control::{Action, Change, Condition, Kind, Who};

use super::*;

fn ban(id: String, until: &str) -> Change {
    let body = format!(r#"{{"act": "ban", "policy": "search", "key": "{id}", "until": "{until}"}}"#);
    Change {
        who: Who { name: "test".to_owned(), role: "admin".to_owned() },
        action: Action::BAN,
        kind: Kind::Key,
        id,
        body: Some(body),
        condition: Condition::Any,
        repeat: None,
    }
}

/// The ids of all pages of a list, and how many pages those were.
async fn list(router: &Router, query: &str) -> (Vec<String>, usize) {
    let (mut ids, mut pages, mut next) = (Vec::new(), 0, String::new());
    loop {
        let after = if next.is_empty() { String::new() } else { format!("&after={next}") };
        let request = request("GET", &format!("/keys?{query}{after}"), READER);
        let answer = send(router, request.body(Body::empty()).unwrap()).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        let told = answer.json();
        ids.extend(
            told["items"].as_array().unwrap().iter().map(|item| item["key"].as_str().unwrap().to_owned()),
        );
        pages += 1;
        match told["next"].as_str() {
            Some(mark) => next = mark.to_owned(),
            None => return (ids, pages),
        }
    }
}

#[tokio::test]
async fn what_is_over_is_listed_only_when_asked_for() {
    let (folder, gate) = (tempfile::tempdir().unwrap(), gate());
    let address = DatabaseAddress::Sqlite(folder.path().join("tollgate.db"));
    let control = Arc::new(Control::open(address, folder.path().join("copy.db"), &gate).await.unwrap());
    let over = (0..2_500).map(|number| ban(format!("b{number:04}"), "2001-01-01T00:00:00Z"));
    let later = ["a", "b1200x", "c"].map(|id| ban(id.to_owned(), "2099-01-01T00:00:00Z"));
    let made = control.database().await.unwrap().change_many(over.chain(later).collect(), 1).await;
    assert!(made.iter().all(Result::is_ok));
    let router = router(Api { control: Some(control), ..api(&gate) });
    let in_force = ["a", "b1200x", "c"].map(str::to_owned).to_vec();
    assert_eq!(list(&router, "limit=100").await, (in_force.clone(), 1));
    assert_eq!(list(&router, "over=false&limit=1").await, (in_force.clone(), 3));
    assert_eq!(list(&router, "limit=2").await, (in_force.clone(), 2));
    let (all, pages) = list(&router, "over=true&limit=1000").await;
    assert_eq!((all.len(), pages), (2_503, 3));
    assert!(all.is_sorted() && in_force.iter().all(|id| all.contains(id)));
    let wrong = request("GET", "/keys?over=yes", READER).body(Body::empty()).unwrap();
    assert_eq!(send(&router, wrong).await.problem(), "400 bad-request: `over` has to be one of true, false");
}
