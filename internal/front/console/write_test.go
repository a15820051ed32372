package console_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/system/embedded"
)

// post posts a form with the token of the console.
func (w *world) post(path string, pairs ...string) answer {
	w.Helper()
	form := url.Values{"token": {w.token()}}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	a := w.do(w.request(http.MethodPost, "/console"+path, form))
	w.harmless(a)
	return a
}

func TestAMessageIsSentAndShownAndAMistakeLeavesTheFormFilledIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, embedded.ConsoleWrite)
	w.shows(w.post("/send", "stream", "stock", "key", "s-1", "group", "lamp", "body", `{"add":1}`), "The message was done", "Message s-1")
	w.shows(w.post("/send", "stream", "stock", "key", "s-1", "group", "lamp", "body", `{"add":1}`), "there already")
	a := w.post("/send", "stream", "stock", "key", "s-1", "group", "lamp", "body", `{"add":2}`)
	w.shows(a, "key-reuse", `{"add":2}`)
	w.shows(w.post("/send", "stream", "numbers", "source", "bob", "sequence", "one"), "must be a whole number")
	w.shows(w.post("/send", "stream", "numbers", "source", "bob", "sequence", "1", "group", "lobby", "body", "x"), "bob/0/1")
	w.shows(w.post("/send", "stream", "nowhere", "key", "1"), "unknown-stream")
}

func TestAFormWithoutAKeyThatIsSubmittedTwiceSendsOneMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, embedded.ConsoleWrite)
	keyOfForm := func() string {
		m := regexp.MustCompile(`name="new" value="(\w+)"`).FindStringSubmatch(w.get("/send").body)
		if m == nil {
			t.Fatal("the form has no key of its own")
		}
		return m[1]
	}
	key := keyOfForm()
	w.shows(w.post("/send", "stream", "stock", "new", key, "body", "1"), "The message was", "Message "+key)
	w.shows(w.post("/send", "stream", "stock", "new", key, "body", "1"), "there already")
	w.shows(w.post("/send", "stream", "stock", "new", key, "key", "own", "body", "1"), "Message own")
	w.shows(w.post("/send", "stream", "numbers", "new", key, "source", "bob", "sequence", "1", "body", "1"), "bob/0/1")
	if keyOfForm() == key {
		t.Error("two forms have the same key")
	}
	a := w.post("/send", "stream", "nowhere", "new", key)
	if !strings.Contains(a.body, `name="new" value="`+key+`"`) {
		t.Error("the form that is shown again after a mistake has another key")
	}
}

func TestADeadLetterIsPutBackAndAnotherDropped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, embedded.ConsoleWrite)
	w.send(client.Message{Stream: "jobs", Key: "bad", Body: []byte(hostile)})
	id := w.letters(1)[0].MessageID
	w.shows(w.post("/redrive", "id", id), "Put back 0 dead letters.", "1 dead letter not put back: the senders were told no.", "once redrive --id "+id)
	w.shows(w.post("/redrive", "id", id, "answered", "true"), "Put back 1 dead letter.", "once redrive --id "+id+" --answered")
	again := w.letters(1)[0].MessageID // the handler refuses it again
	if again == id {
		again = w.letters(1)[0].MessageID
	}
	w.shows(w.post("/redrive", "reason", "key-reuse"), "Put back 0 dead letters.", "once redrive --reason key-reuse")
	if a := w.post("/drop"); a.status != http.StatusBadRequest || len(w.letters(1)) != 1 {
		t.Errorf("a drop of everything: %d %s", a.status, a.text)
	}
	w.shows(w.post("/drop", "id", again), "Dropped 1 dead letter.")
	w.letters(0)
}

func TestAnEffectThatBlocksItsGroupIsSkipped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, embedded.ConsoleWrite)
	w.send(client.Message{Stream: "orders", Key: "o-1", Group: "customer-7", Body: []byte("1")})
	w.until("status 400", "/group", "stream", "orders", "group", "customer-7")
	w.shows(w.post("/skip", "stream", "orders", "group", "customer-7", "number", "1"), "Effect 1 is a dead letter for hook.", "once redrive --id orders/customer-7/1")
	w.letters(1)
	if a := w.post("/skip", "stream", "orders", "group", "customer-7", "number", "9"); a.status != http.StatusNotFound {
		t.Errorf("%d %s", a.status, a.text)
	}
}

func TestAConsoleThatReadsRefusesToWrite(t *testing.T) {
	t.Parallel()
	w := newWorld(t, embedded.ConsoleRead)
	w.send(client.Message{Stream: "jobs", Key: "bad", Body: []byte(hostile)})
	id := w.letters(1)[0].MessageID
	for _, path := range []string{"/send", "/redrive", "/drop", "/skip"} {
		a := w.do(w.request(http.MethodPost, "/console"+path, url.Values{"id": {id}}))
		if a.status != http.StatusForbidden || !strings.Contains(a.text, "This console only reads. Start") {
			t.Errorf("%s: %d %s", path, a.status, a.text)
		}
	}
	w.letters(1)
	for _, a := range []answer{w.get("/letters"), w.get("/letter", "id", id), w.get("/send")} {
		if strings.Contains(a.body, "<form method=\"post\"") || strings.Contains(a.body, `name="token"`) {
			t.Errorf("a page has a form that writes, or the token: %s", a.body)
		}
	}
}

func TestOnlyAFormOfThisProcessAndThisOriginWrites(t *testing.T) {
	t.Parallel()
	w := newWorld(t, embedded.ConsoleWrite)
	w.send(client.Message{Stream: "jobs", Key: "bad", Body: []byte(hostile)})
	letter := w.letters(1)[0]
	id, right := letter.MessageID, w.token()
	for name, c := range map[string]struct {
		token  string
		header map[string]string
	}{
		"no token":              {"", nil},
		"a wrong token":         {"-" + right[1:], nil},
		"half a token":          {right[:4], nil},
		"another site":          {right, map[string]string{"Sec-Fetch-Site": "cross-site"}},
		"another port":          {right, map[string]string{"Sec-Fetch-Site": "same-site"}},
		"another origin":        {right, map[string]string{"Origin": "https://attacker.example"}},
		"an origin of no name":  {right, map[string]string{"Origin": "null"}},
		"a host that is not it": {right, map[string]string{"Host": "attacker.example"}},
	} {
		r := w.request(http.MethodPost, "/console/drop", url.Values{"id": {id}, "token": {c.token}})
		for key, value := range c.header {
			r.Header.Set(key, value)
			if key == "Host" {
				r.Host = value
			}
		}
		if a := w.do(r); a.status != http.StatusForbidden {
			t.Errorf("%s: %d %s", name, a.status, a.text)
		}
	}
	// a token in the address would be in histories and logs
	r := w.request(http.MethodPost, "/console/drop?token="+right, url.Values{"id": {id}})
	if a := w.do(r); a.status != http.StatusForbidden {
		t.Errorf("the token in the address: %d", a.status)
	}
	if a := w.do(w.request(http.MethodGet, "/console/drop?token="+right+"&id="+id, nil)); a.status == http.StatusOK {
		t.Errorf("GET: %d", a.status)
	}
	w.letters(1)
	r = w.request(http.MethodPost, "/console/drop", url.Values{"id": {id}, "token": {right}})
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("Origin", w.server.URL)
	if a := w.do(r); a.status != http.StatusOK {
		t.Errorf("the form itself: %d %s", a.status, a.text)
	}
	w.letters(0)
}

func TestOnlyOwnHostNamesReadTheConsole(t *testing.T) {
	t.Parallel()
	w := newWorld(t, embedded.ConsoleRead)
	for host, want := range map[string]int{
		"attacker.example": 403, "attacker.example:8080": 403, "localhost.attacker.example": 403, "127.0.0.1.attacker.example": 403,
		"localhost": 200, "LOCALHOST:8080": 200, "127.0.0.1:1": 200, "[::1]:8080": 200, "shop.example": 200, "shop.example:443": 200,
	} {
		for _, accept := range []string{"text/html", "text/event-stream"} {
			if want == 200 && accept != "text/html" {
				continue // it would not end
			}
			r := w.request(http.MethodGet, "/console/letters", nil)
			r.Host = host
			r.Header.Set("Accept", accept)
			if a := w.do(r); a.status != want || want == 403 && strings.Contains(a.text, "no dead letters") {
				t.Errorf("Host %s, %s: %d %s", host, accept, a.status, a.text)
			}
		}
	}
}

func TestAnotherSiteMayLinkToTheConsoleAndLoadNothingOfIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, embedded.ConsoleRead)
	for header, want := range map[string]int{"cross-site document": 200, "cross-site image": 403, "cross-site iframe": 403, "same-site empty": 403, "same-origin empty": 200, "none document": 200} {
		site, dest, _ := strings.Cut(header, " ")
		r := w.request(http.MethodGet, "/console/totals", nil)
		r.Header.Set("Sec-Fetch-Site", site)
		r.Header.Set("Sec-Fetch-Dest", dest)
		if a := w.do(r); a.status != want {
			t.Errorf("%s: %d %s", header, a.status, a.text)
		}
	}
}
