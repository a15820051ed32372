package console_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/admin/plain"
	"github.com/effectively-once/once/internal/front/console"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/embedded"
	"github.com/effectively-once/once/internal/testkit/memnet"
)

func TestTheFirstPageSaysWhatDoesNotMoveAndWhyAndNamesTheCommands(t *testing.T) {
	t.Parallel()
	w := newWorld(t, embedded.ConsoleRead)
	w.shows(w.get(""), "Nothing waits, and there are no dead letters.")
	w.send(client.Message{Stream: "jobs", Key: "j-1", Group: "g'1", Body: []byte("broken")})
	w.send(client.Message{Stream: "orders", Key: "o-1", Group: "customer-7", Body: []byte("1")})
	w.send(client.Message{Stream: "numbers", Source: "bob", Sequence: 1, Group: "lobby", Body: []byte("1")})
	w.send(client.Message{Stream: "numbers", Source: "bob", Sequence: 3, Group: "lobby", Body: []byte("3")})
	w.send(client.Message{Stream: "jobs", Key: "j-2", Body: []byte(hostile)})
	w.send(client.Message{Stream: "work", Key: "w-1", Body: []byte("1")})
	w.leave("work", "reader")
	idle, err := w.client.OpenSession(t.Context(), client.SessionOptions{Stream: "work", Name: "idle"})
	if err == nil {
		err = idle.Release(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	w.send(client.Message{Stream: "work", Key: "w-2", Body: []byte("2")})
	busy, err := w.client.OpenSession(t.Context(), client.SessionOptions{Stream: "work", Name: "busy"})
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	if _, err := busy.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.letters(1)
	w.until("Message j-1 failed", "")
	w.until("status 400", "")
	a := w.until("Waits for bob=2, missing since", "")
	data := " --data " + plain.Quote(w.data)
	w.shows(
		a, "database is restarting", "field x missing", "once show 'jobs/g'\\''1'"+data, "once skip orders/customer-7 1"+data, "once show numbers/lobby"+data,
		"1 dead letter", "rejected", "no <script>", "once redrive --id", "work: reader", "1 entry waits", "once sessions work --url "+w.server.URL,
	)
	if strings.Contains(a.text, "work: idle") || strings.Contains(a.text, "work: busy") {
		t.Error("a session is listed that has a holder, or nothing to process")
	}
	if !strings.Contains(a.body, `href="/console/group?group=customer-7&amp;stream=orders"`) {
		t.Error("there is no link to the group")
	}
	if a := w.get("/streams"); strings.Count(a.body, `href="/console/groups?stream=`) != 6 {
		t.Errorf("not all streams are listed: %s", a.body)
	}
	w.shows(w.get("/totals", "count", "1"), "room", "At work.", "publish.fifo")
}

// leave makes a session of a pool that has entries and no holder.
func (w *world) leave(stream, name string) {
	w.Helper()
	s, err := w.client.OpenSession(w.Context(), client.SessionOptions{Stream: stream, Name: name, Holder: "somebody"})
	if err != nil {
		w.Fatal(err)
	}
	if _, err = s.Next(w.Context()); err == nil {
		err = s.Release(w.Context())
	}
	s.Close()
	if err != nil {
		w.Fatal(err)
	}
}

func TestGroupsArePagedAndAGroupShowsWhatTheCommandShows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, embedded.ConsoleRead)
	var messages []client.Message
	for i := range 130 {
		messages = append(messages, client.Message{Stream: "room", Key: fmt.Sprint("m-", i), Group: fmt.Sprintf("g-%03d", i), Body: []byte("1")})
	}
	for _, r := range w.client.SendBatch(t.Context(), messages) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	for listed := 0; listed < 130; { // some may be processed from the queue
		list, err := w.system.Groups(t.Context(), admin.GroupsOptions{Stream: "room", Limit: 200})
		if err != nil {
			t.Fatal(err)
		}
		listed = len(list)
	}
	seen := map[string]bool{}
	after, pages := "", 0
	for {
		a := w.get("/groups", "stream", "room", "after", after)
		pages++
		last := ""
		for field := range strings.FieldsSeq(a.text) {
			if strings.HasPrefix(field, "g-") {
				seen[field], last = true, field
			}
		}
		if !strings.Contains(a.body, `id="next"`) {
			break
		}
		if after = last; !strings.Contains(a.body, "after="+url.QueryEscape(last)) {
			t.Fatalf("the next page does not begin after %s: %s", last, a.body)
		}
	}
	if len(seen) != 130 || pages != 2 {
		t.Errorf("%d groups on %d pages", len(seen), pages)
	}

	w.send(client.Message{Stream: "orders", Key: "o-1", Group: "customer-7", Body: []byte("1")})
	w.send(client.Message{Stream: "orders", Key: "o-2", Group: "customer-7", Body: []byte("2")})
	w.until("status 400", "/group", "stream", "orders", "group", "customer-7")
	w.until("orders/customer-7/2", "/group", "stream", "orders", "group", "customer-7")
	w.shows(w.get("/group", "stream", "orders", "group", "customer-7"), "destination hook to take effect 1, of message o-1; failed", "field x missing", "orders/customer-7/2", "not sent")
	g, err := w.system.Group(t.Context(), "orders", "customer-7")
	if err != nil || len(g.Pending) != 2 || len(g.Pending[1].Sends) != 1 || (g.Pending[1].Sends[0] != admin.Send{ID: "orders/customer-7/2", Number: 2, To: "hook"}) {
		t.Errorf("the group is %+v, %v", g, err)
	}
	w.shows(w.get("/message", "stream", "orders", "id", "o-2"), "committed", "0 of 1 delivery", "orders/customer-7/2", "Waits for destination hook", "once show orders --id o-2")
}

func TestAGroupListsItsTimersAndWhenTheyAreDue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, embedded.ConsoleRead)
	w.send(client.Message{Stream: "jobs", Key: "j-1", Group: "g", Body: []byte("remind")})
	page := w.until("reminder <b>", "/group", "stream", "jobs", "group", "g")
	g, err := w.system.Group(t.Context(), "jobs", "g")
	if err != nil || len(g.Timers) != 1 {
		t.Fatalf("the group has the timers %+v, %v, want one", g.Timers, err)
	}
	w.shows(page, "Timers", "Due", plain.Stamp(&g.Timers[0].Due))
	if strings.Contains(page.body, "<b>") {
		t.Error("the name of the timer is markup, want text")
	}
	w.send(client.Message{Stream: "jobs", Key: "j-2", Group: "other"})
	if page := w.until("Expires", "/group", "stream", "jobs", "group", "other"); strings.Contains(page.body, "<h2>Timers</h2>") {
		t.Error("a group without timers has a list of them, want none")
	}
}

func TestTheLifeOfAMessageIsShownAndItsReplyOnlyIfAskedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, embedded.ConsoleRead)
	w.send(client.Message{Stream: "jobs", Key: "good", Body: []byte("1")})
	a := w.until("Status done", "/message", "stream", "jobs", "id", "good")
	if w.shows(a, "Reply 200"); strings.Contains(a.body, "a reply") {
		t.Error("the reply is there before it was asked for")
	}
	w.shows(w.get("/message", "stream", "jobs", "id", "good", "reply", "1"), "a reply")
	w.send(client.Message{Stream: "jobs", Key: "bad", Body: []byte(hostile)})
	w.until("refused: rejected", "/message", "stream", "jobs", "id", "bad")
	w.send(client.Message{Stream: "jobs", Key: "stuck", Body: []byte("broken")})
	w.until("Waits for the next try of message stuck; failed", "/message", "stream", "jobs", "id", "stuck")
	m, err := w.system.Message(t.Context(), "jobs", "stuck")
	if err != nil {
		t.Fatal(err)
	}
	w.shows(w.get("/find", "hash", m.Hash), "Message stuck")
	w.shows(w.get("/find"), "Find by id")
}

func TestAMessageThatIsNotFoundQuicklyIsLookedForInTheWholeStoreIfAskedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, embedded.ConsoleRead)
	for all, path := range map[string][]string{
		"/console/message?all=1&amp;id=nothing&amp;stream=room": {"/message", "stream", "room", "id", "nothing"},
		"/console/find?all=1&amp;hash=0123456789ab":             {"/find", "hash", "0123456789ab"},
	} {
		a := w.load(path[0], path[1:]...)
		if a.status != http.StatusNotFound || !strings.Contains(a.body, `<a id="all" href="`+all+`">`) {
			t.Errorf("%v: %d %s; want a link to %s", path, a.status, a.body, all)
		}
		if a := w.load(path[0], append(path[1:], "all", "1")...); a.status != http.StatusNotFound || strings.Contains(a.body, `id="all"`) {
			t.Errorf("%v, all: %d %s", path, a.status, a.body)
		}
	}
	// a held message has no token; its group is among the unfinished ones
	w.send(client.Message{Stream: "numbers", Source: "bob", Sequence: 2, Group: "lobby", Body: []byte("1")})
	w.until("Status held", "/message", "stream", "numbers", "id", "bob/0/2")
}

func TestADeadLetterShowsItsReasonAndItsBodyOnlyIfAskedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, embedded.ConsoleRead)
	w.send(client.Message{Stream: "jobs", Key: "bad", Body: []byte(hostile), Headers: map[string]string{"X-Note": "a\u202eb"}})
	id := w.letters(1)[0].MessageID
	w.shows(w.get("/letters"), "rejected", "jobs bad", `no <script>alert(1)</script>`, `[31m\u202etxt.exe\r"'`, "once redrive")
	w.shows(w.get("/letters", "reason", "key-reuse"), "There are no such dead letters.", "once show --dead-letters --reason key-reuse")
	a := w.get("/letter", "id", id)
	if strings.Contains(a.text, "X-Note") || strings.Contains(a.body, `id="body"`) {
		t.Error("headers or body are there before they were asked for")
	}
	w.shows(w.get("/letter", "id", id, "body", "1"), `<script>alert(1)</script>\x1b[31m\u202etxt.exe\r"'`, "X-Note", `a\u202eb`, "once drop --id "+id)
}

func TestALogIsReadFromItsEndBackwards(t *testing.T) {
	t.Parallel()
	w := newWorld(t, embedded.ConsoleRead)
	for i := 1; i <= 120; i++ {
		w.send(client.Message{Stream: "room", Key: fmt.Sprint("m-", i), Group: "a/b", Body: []byte("said " + hostile)})
	}
	a := w.get("/log", "stream", "room", "group", "a/b")
	w.shows(a, "The last entries", "m-120", "m-71 ", `said <script>alert(1)</script>\x1b`, "once tail room/a/b --url")
	if strings.Contains(a.body, `id="entry-70"`) {
		t.Error("the page has more than the last 50 entries")
	}
	back := func(a answer) answer {
		t.Helper()
		_, rest, ok := strings.Cut(a.body, `id="earlier" href="`)
		if !ok {
			t.Fatal("there is no link to earlier entries")
		}
		link, _, _ := strings.Cut(rest, `"`)
		u, err := url.Parse(strings.ReplaceAll(link, "&amp;", "&"))
		if err != nil {
			t.Fatal(err)
		}
		return w.get("/log", "stream", "room", "group", "a/b", "after", u.Query().Get("after"))
	}
	a = back(a)
	if !strings.Contains(a.body, `id="entry-21"`) || !strings.Contains(a.body, `id="entry-70"`) {
		t.Errorf("the page before has not the entries 21 to 70: %s", a.text)
	}
	if a = back(a); !strings.Contains(a.body, `id="entry-1"`) || strings.Contains(a.body, `id="earlier"`) || !strings.Contains(a.body, `id="later"`) {
		t.Errorf("the first page is not the first: %s", a.text)
	}
}

func TestSessionsAreListedAsTheCommandDoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, embedded.ConsoleRead)
	w.send(client.Message{Stream: "work", Key: "w-1", Body: []byte("1")})
	w.leave("work", "reader")
	w.shows(w.get("/sessions"), "work")
	w.shows(w.get("/sessions", "stream", "work"), "reader free, behind", "Pool: 0 waiting", "once sessions work")
}

func TestAPageRenewsItselfAndEndsWithTheSystem(t *testing.T) {
	t.Parallel()
	w := newWorld(t, embedded.ConsoleRead)
	next, stop := w.events("/letters")
	defer stop()
	if text := next(); !strings.Contains(text, "There are no dead letters.") {
		t.Errorf("the first event is %s", text)
	}
	w.send(client.Message{Stream: "jobs", Key: "bad", Body: []byte(hostile)})
	text := next()
	if !strings.Contains(text, "jobs bad") || strings.Contains(text, "<html") {
		t.Errorf("the second event is %s", text)
	}
	w.harmless(answer{body: text})
	w.end()
	if text := next(); text != "" {
		t.Errorf("the events went on: %s", text)
	}
}

func TestAMessageThatAnswersAnEntryThatIsNotThereIsShownAsWaitingForIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, embedded.ConsoleRead)
	w.send(client.Message{Stream: "room", Key: "answer", Group: "lobby", Parents: []uint64{2}, Body: []byte("yes")})
	w.until("Message answer answers entry 2 of the log, which is not there yet", "")
	const waits = "Waits for entry 2 of the log, which message answer answers, since"
	w.shows(w.get("/log", "stream", "room", "group", "lobby"), waits)
	w.shows(w.get("/message", "stream", "room", "id", "answer"), waits)
	w.shows(w.get("/group", "stream", "room", "group", "lobby"), "entry 2 of the log")
	w.send(client.Message{Stream: "room", Key: "root", Group: "lobby", Body: []byte("1")})
	w.send(client.Message{Stream: "room", Key: "question", Group: "lobby", Body: []byte("2")})
	w.until("Status done", "/message", "stream", "room", "id", "answer")
	w.until("Nothing waits, and there are no dead letters.", "")
}

// serveLetters serves the pages of a system that has dead letters only. It must be called in a
// bubble.
func serveLetters(t *testing.T, list func(context.Context) error) *httptest.Server {
	t.Helper()
	pages, err := console.Handler(console.Options{
		System: listing{list: list}, API: http.NotFoundHandler(), Streams: func() []record.Stream { return nil }, Allowed: func(string) bool { return true },
		Done: t.Context().Done(), Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return new(memnet.Network).Serve(&http.Server{Handler: pages})
}

// listing is a system without dead letters, which calls list when it is asked for them.
type listing struct {
	console.System
	list func(context.Context) error
}

func (l listing) DeadLetters(ctx context.Context, _ admin.DeadLettersOptions) ([]admin.DeadLetter, error) {
	return nil, l.list(ctx)
}

// The database may be closed when the server has ended its last request.
func TestARequestEndsAfterThePageThatItFollowsIsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, ended := make(chan struct{}), false
		server := serveLetters(t, func(ctx context.Context) error {
			close(asked)
			<-ctx.Done()
			time.Sleep(time.Minute)
			ended = true
			return ctx.Err()
		})
		_, stop := eventsOf(t, server, "/letters")
		<-asked
		stop()
		server.Close() // it waits for its requests
		if !ended {
			t.Error("the last request has ended while its page is being made")
		}
	})
}

// TestBrowsersThatShowTheSamePageShareItsRenewal counts how often the page is made: not for each
// browser.
func TestBrowsersThatShowTheSamePageShareItsRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made atomic.Int64
		server := serveLetters(t, func(context.Context) error { made.Add(1); return nil })
		defer server.Close()
		var stops []func()
		for range 30 {
			next, stop := eventsOf(t, server, "/letters")
			stops = append(stops, stop)
			if text := next(); !strings.Contains(text, "There are no dead letters.") {
				t.Errorf("the first event is %s", text)
			}
		}
		time.Sleep(10*time.Second + time.Millisecond)
		if n := made.Load(); n != 11 { // it is made once a second
			t.Errorf("30 browsers made the page %d times in 10 seconds, want 11", n)
		}
		for _, stop := range stops {
			stop()
		}
		synctest.Wait()
		before := made.Load()
		time.Sleep(time.Minute)
		if n := made.Load(); n != before {
			t.Errorf("the page is made %d times although no browser shows it", n-before)
		}
	})
}

func TestThePageOfTotalsComesBeforeTheStoreIsRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, embedded.ConsoleRead)
	w.send(client.Message{Stream: "room", Key: "a", Group: "g", Body: []byte("1")})
	if a := w.get("/totals"); strings.Contains(a.body, `scope="row"`) || !strings.Contains(a.text, "Reading the whole store") {
		t.Errorf("the page has counts already, want a notice: %s", a.text)
	}
	next, stop := w.events("/totals")
	defer stop()
	if text := next(); !strings.Contains(text, "room") || !strings.Contains(text, "publish.fifo") {
		t.Errorf("the first event has no counts: %s", text)
	}
}

func TestAFormOrAPageThatNeverChangesDoesNotRenewItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t, embedded.ConsoleRead)
	for _, path := range []string{"/find", "/find?hash=0123456789ab", "/streams", "/send"} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // events would not end
		r := w.request(http.MethodGet, "/console"+path, nil).WithContext(ctx)
		r.Header.Set("Accept", "text/event-stream")
		a := w.do(r)
		cancel()
		if a.status != http.StatusNotAcceptable {
			t.Errorf("events of %s: %d, want 406", path, a.status)
		}
	}
}

func TestTheFolderOfStaticFilesIsNotListed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, embedded.ConsoleRead)
	for path, want := range map[string]int{"/static/": 404, "/static": 404, "/static/../templates/layout.html": 404, "/static/nothing": 404, "/static/script.js": 200, "/static/style.css": 200} {
		if a := w.do(w.request(http.MethodGet, "/console"+path, nil)); a.status != want {
			t.Errorf("%s: %d, want %d", path, a.status, want)
		}
	}
}

// TestNoPageShowsTheTextOfASenderAsMarkup sends texts of senders in every place that takes one, and
// reads every page about them. [world.load] fails the test if a page has them as they are.
func TestNoPageShowsTheTextOfASenderAsMarkup(t *testing.T) {
	t.Parallel()
	w := newWorld(t, embedded.ConsoleRead)
	const name = `<script>alert(1)</script>"'&x` // ids can't have control characters
	w.send(client.Message{Stream: "orders", Key: name, Group: name, Body: []byte(hostile)})
	w.send(client.Message{Stream: "jobs", Key: name, Group: name, Body: []byte("broken")})
	w.send(client.Message{Stream: "jobs", Key: name + "2", Body: []byte(hostile), Headers: map[string]string{"X-Note": "a\u202e<b>"}})
	w.send(client.Message{Stream: "numbers", Source: name, Sequence: 2, Group: name, Body: []byte("1")})
	w.send(client.Message{Stream: "room", Key: name, Group: name, Body: []byte(hostile + "\n" + hostile)})
	w.send(client.Message{Stream: "room", Key: name + "3", Group: name, Parents: []uint64{9}, Body: []byte("1")})
	w.send(client.Message{Stream: "work", Key: name, Body: []byte(hostile)})
	s, err := w.client.OpenSession(t.Context(), client.SessionOptions{Stream: "work", Name: "reader", Holder: name})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	e, err := s.Next(t.Context())
	if err == nil {
		_, err = s.Fail(t.Context(), e.Entries[0].Number, hostile)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.until("answers entry 9", "")
	w.until("status 400", "")
	w.until("failed", "")
	letter := w.letters(1)[0].MessageID
	for _, page := range [][]string{
		{""},
		{"/streams"},
		{"/totals"},
		{"/letters"},
		{"/letters", "stream", name, "reason", name, "queue", name},
		{"/letter", "id", letter, "body", "1"},
		{"/letter", "id", name},
		{"/groups", "stream", "orders"},
		{"/groups", "stream", name},
		{"/groups", "stream", "orders", "after", name},
		{"/sessions"},
		{"/sessions", "stream", "work"},
		{"/sessions", "stream", name},
		{"/group", "stream", "orders", "group", name},
		{"/group", "stream", "jobs", "group", name},
		{"/group", "stream", "numbers", "group", name},
		{"/group", "stream", name, "group", name, "state", "1"},
		{"/message", "stream", "orders", "id", name},
		{"/message", "stream", "jobs", "id", name},
		{"/message", "stream", "room", "id", name + "3"},
		{"/message", "stream", name, "id", name},
		{"/log", "stream", "room", "group", name},
		{"/log", "stream", "room", "group", name, "after", name},
		{"/find", "hash", name},
		{"/send"},
		{"/" + url.PathEscape(name)},
	} {
		if a := w.load(page[0], page[1:]...); a.status >= 500 || a.header.Get("Content-Type") != "text/html; charset=utf-8" {
			t.Errorf("%q: %d, %s", page, a.status, a.header.Get("Content-Type"))
		}
	}
}

func TestEveryAnswerForbidsScriptsFramesAndCaching(t *testing.T) {
	t.Parallel()
	w := newWorld(t, embedded.ConsoleRead)
	for _, path := range []string{"", "/letters", "/nothing", "/static/script.js"} {
		a := w.do(w.request(http.MethodGet, "/console"+path, nil))
		policy := a.header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: the policy is %q", path, policy)
			}
		}
		if a.header.Get("Cache-Control") != "no-store" || a.header.Get("Referrer-Policy") != "same-origin" || a.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", path, a.header)
		}
		if strings.Contains(a.body, "style=") || strings.Contains(a.body, " on") && strings.Contains(a.body, "onclick") {
			t.Errorf("%s has something inline", path)
		}
	}
}

func TestABadIdAndAMethodThatAPageDoesNotTakeAreMistakesOfTheCaller(t *testing.T) {
	t.Parallel()
	w := newWorld(t, embedded.ConsoleRead)
	for id, want := range map[string]string{"\x00": "control characters", "a\r\nb": "control characters", "\xff": "UTF-8", "": "must not be empty", strings.Repeat("ü", 1024): "id must be"} {
		if a := w.load("/message", "stream", "orders", "id", id); a.status != http.StatusBadRequest || !strings.Contains(a.text, want) {
			t.Errorf("id %q: %d %s", id, a.status, a.text)
		}
	}
	for request, allow := range map[string]string{"PUT /console": "GET, HEAD", "POST /console/letters": "GET, HEAD", "GET /console/drop": "POST", "DELETE /console/send": "GET, HEAD, POST"} {
		method, path, _ := strings.Cut(request, " ")
		if a := w.do(w.request(method, path, nil)); a.status != http.StatusMethodNotAllowed || a.header.Get("Allow") != allow {
			t.Errorf("%s: %d, Allow: %q", request, a.status, a.header.Get("Allow"))
		}
	}
}

func TestAMessageThatADestinationDoesNotTakeIsNotAHandlerThatFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, embedded.ConsoleRead)
	// The stream has no handler.
	w.send(client.Message{Stream: "orders", Key: "o-1", Body: []byte("1")})
	if a := w.until("send to hook", ""); strings.Contains(a.text, "handler fails") {
		t.Errorf("the page blames a handler: %s", a.text)
	}
}

func TestThereIsNoConsoleUnlessItIsSet(t *testing.T) {
	t.Parallel()
	for _, setting := range []embedded.Console{"", embedded.ConsoleOff} {
		w := newWorld(t, setting)
		if a := w.do(w.request(http.MethodGet, "/console", nil)); a.status != http.StatusNotFound {
			t.Errorf("%q: %d", setting, a.status)
		}
	}
	if _, err := embedded.Open(embedded.Options{DataDir: t.TempDir(), Console: "on"}); err == nil || !strings.Contains(err.Error(), `console "on" must be off, read or write`) {
		t.Errorf("%v", err)
	}
}
