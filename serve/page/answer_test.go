package page_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// fetchToken makes a token of a pause.
func fetchToken(s *site, run, pause string) string {
	s.Helper()
	var made struct{ Token string }
	if err := json.Unmarshal([]byte(s.api("POST", "runs/"+run+"/pauses/"+pause+"/tokens", "")), &made); err != nil {
		s.Fatal(err)
	}
	return made.Token
}

// Who has a link answers one pause and sees nothing else. The token is in no URL, no storage and no part of the page.
func TestAnswerByLink(t *testing.T) {
	s := newSite(t, options{recipes: map[string]string{"reply": reply}, idle: true})
	id := s.run("reply", map[string]any{"ticket": "T-1"})
	s.run("reply", map[string]any{"ticket": "T-2"})
	token := fetchToken(s, id, "approve")
	b := s.open("", "#answer="+token)
	b.sees("h1", "Send the reply to T-1?")
	b.gone("nav, a")
	b.press("approve")
	b.wrong("is required")
	b.put("text", 0, "by link")
	b.do(chromedp.Reload())
	b.sees("[role=status]", "Draft restored.")
	seen := value[string](b, `document.documentElement.outerHTML + JSON.stringify({...sessionStorage, ...localStorage}) +
		document.cookie + performance.getEntriesByType("resource").map((e) => e.name).join()`)
	if secret := token[strings.LastIndex(token, ".")+1:]; strings.Contains(seen, secret) || !strings.Contains(seen, "by link") {
		t.Errorf("the token, or no draft, is in\n%s", seen)
	}
	b.press("approve")
	b.sees("h1", "Thank you")
	b.sees("main", "approve")
	b.axe("thanks")
	b.do(chromedp.Reload())
	b.sees("h1", "There is nothing to answer any more")
	b.sees("main", "was answered at")
	b.axe("a link that was used")
	s.open("", "#answer="+token[:len(token)-4]+"AAAA").sees(".trouble", "unknown, used or expired")

	late := s.open("", "#answer="+fetchToken(s, s.runs()[0], "approve"))
	late.sees("h1", "T-2")
	s.api("POST", "runs/"+s.runs()[0]+"/pauses/approve/answer", `{"decision": "reject"}`)
	late.press("reject")
	late.sees(".trouble", `was answered by "olga"`)
}

// Who comes too late by a link learns what happened instead, whether a worker has carried it out or not.
func TestAnswerExpired(t *testing.T) {
	s := newSite(t, options{recipes: map[string]string{"reply": strings.Replace(reply, "expires: 72h", "expires: 4s\n      on_expire: reject", 1)}, idle: true})
	id := s.run("reply", map[string]any{"ticket": "T-1"})
	token := fetchToken(s, id, "approve")
	look := s.open("", "livez") // the time is over
	look.is(fmt.Sprintf(`fetch('api/v1/token/look', {method: 'POST', body: '{"token":"%s"}', headers: {'Content-Type': 'application/json'}}).then((r) => window.status = r.status), window.status`, token), "409")
	b := s.open("", "#answer="+token)
	b.sees("main", "expired at")
	b.gone("button")
	b.axe("a link that expired")
	s.work()
	s.post("/runs/"+id+"/recover", "{}")
	until(t, func() bool { return fetch[struct{ Phase string }](s, "runs/"+id).Phase == "ok" }, func() string { return "it does not end" })
	b.do(chromedp.Reload())
	b.sees("main", "so its on_expire was the answer")
}
