//! The files of the page, inside the program. None has a name of another host, an inline script or an inline style.

/// A file of the page.
pub(super) struct Asset {
    pub(super) media_type: &'static str,
    pub(super) content: &'static str,
}

pub(super) const PAGE: &str = include_str!("assets/page.html");
pub(super) const LOGIN: &str = include_str!("assets/login.html");

const HTML_OF_PROBLEM: &str = "<!--problem-->";

/// The login form, with what was wrong with the last attempt.
pub(super) fn login(problem: Option<&'static str>) -> String {
    let problem = problem.map_or_else(String::new, |text| format!("<p class=\"problem\" role=\"alert\">{text}</p>"));
    LOGIN.replacen(HTML_OF_PROBLEM, &problem, 1)
}

/// The file of this name below `/assets`.
pub(super) fn find(name: &str) -> Option<Asset> {
    let (media_type, content) = match name {
        "page.css" => ("text/css; charset=utf-8", include_str!("assets/page.css")),
        "page.js" => ("text/javascript; charset=utf-8", include_str!("assets/page.js")),
        "format.js" => ("text/javascript; charset=utf-8", include_str!("assets/format.js")),
        "icon.svg" => ("image/svg+xml", include_str!("assets/icon.svg")),
        _ => return None,
    };
    Some(Asset { media_type, content })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_needs_the_network_or_an_inline_script_or_style() {
        for html in [PAGE, LOGIN] {
            let mut attributes = html.split_whitespace().filter(|word| word.contains('='));
            assert!(
                attributes.all(|word| !word.starts_with("on") && !word.starts_with("style"))
                    && !html.contains("<style")
            );
            assert!(html.matches("<script").count() == html.matches("<script type=\"module\" src=").count());
            for part in html.split("=\"/assets/").skip(1) {
                let (name, _) = part.split_once('"').unwrap();
                assert!(find(name).is_some(), "{name}");
            }
        }
        for name in ["page.css", "page.js", "format.js"] {
            let content = find(name).unwrap().content;
            assert!(!content.contains("http://") && !content.contains("https://"), "{name}");
            for unsafe_way in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
                assert!(!content.contains(unsafe_way), "{name} has {unsafe_way}");
            }
        }
        assert!(login(Some("wrong")).contains("role=\"alert\">wrong<") && !login(None).contains("alert"));
    }
}
