package e2e

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestContract checks what holds wherever the system runs. Without ONCE_E2E_API_URL it runs on the embedded system, and on the functions under the local Lambda host; with
// it, on the stack that is deployed there. See target_*_test.go.
func TestContract(t *testing.T) {
	for name, start := range targets() {
		t.Run(name, func(t *testing.T) { checkContract(t, start(t)) })
	}
}

func checkContract(t *testing.T, x *target) {
	checks := map[string]func(*testing.T, *sandbox){
		"a duplicate gets the answer of the first":                       aDuplicateGetsTheAnswerOfTheFirst,
		"a waiting caller is told when it is done":                       aWaitingCallerIsToldWhenItIsDone,
		"many at once get one answer":                                    manyAtOnceGetOneAnswer,
		"what is wrong with a request is a problem":                      whatIsWrongWithARequestIsAProblem,
		"a one-time request is stored, run and forgotten once":           aOneTimeRequestIsStoredRunAndForgottenOnce,
		"messages by SQS have one effect each":                           messagesBySQSHaveOneEffectEach,
		"the front doors share their memory":                             theFrontDoorsShareTheirMemory,
		"a group keeps the order of its first-in-first-out queue":        aGroupKeepsTheOrderOfItsQueue,
		"numbered messages come out in the order of their numbers":       numberedMessagesComeOutInOrder,
		"a message without order or group has one effect":                unorderedMessagesHaveOneEffectEach,
		"a reused key is dead-lettered and holds up nobody":              aReusedKeyIsDeadLettered,
		"an unknown token is dead-lettered and comes back once issued":   anUnknownTokenComesBackOnceIssued,
		"malformed attributes are dead-lettered":                         malformedAttributesAreDeadLettered,
		"numbers without a predecessor come back in order":               numbersWithoutAPredecessorComeBackInOrder,
		"a stale epoch is dead-lettered":                                 aStaleEpochIsDeadLettered,
		"every destination gets every message once, in order of a group": everyDestinationGetsEveryMessageOnce,
	}
	if x.believing {
		checks["a message of a principal comes back as its principal's"] = aMessageOfAPrincipalComesBackAsItsPrincipals
	}
	t.Run("check", func(t *testing.T) {
		for name, check := range checks {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				check(t, x.sandbox())
			})
		}
	})
	x.judgeAll(t)
}

// judgeAll checks, when all is done, that no message of any check has had two effects, and that nothing is left over.
func (x *target) judgeAll(t *testing.T) {
	t.Helper()
	var left []string
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := poll(ctx, settleEvery, func() (_ bool, err error) {
		left, err = x.leftovers()
		return len(left) == 0, err
	})
	if err != nil {
		t.Errorf("%v: left over:\n%s", err, strings.Join(left, "\n"))
	}
	posts, problems := x.receiver.seen()
	(&verdict{problems}).report(t)
	v := &verdict{}
	effect := map[[2]string]string{}
	for _, p := range posts {
		m := [2]string{p.stream, p.id}
		if effect[m] != "" && effect[m] != p.webhookID {
			v.add("%s of %s has two effects: %s and %s", p.id, p.stream, effect[m], p.webhookID)
		}
		effect[m] = p.webhookID
	}
	v.report(t)
	t.Logf("%d messages, %d posts", len(effect), len(posts))
}

func aDuplicateGetsTheAnswerOfTheFirst(t *testing.T, x *sandbox) {
	key := x.name("a")
	send := func(body string) answer {
		return x.must(t, "POST", "/v1/streams/keyed/messages", body, "Idempotency-Key", `"`+key+`"`, "Once-Group", x.name("g"), "Content-Type", "application/json")
	}
	first := send(`{"amount": 100}`)
	if first.status != http.StatusAccepted || first.header.Get("Idempotent-Replayed") != "" || first.header.Get("Location") == "" {
		t.Fatalf("first answer: %+v", first)
	}
	again := send(`{"amount": 100}`)
	x.want(t, "keyed", sent{id: key, group: x.name("g"), body: []byte(`{"amount": 100}`)})
	x.untilDone(t, "keyed", key)
	late := send(`{"amount": 100}`)
	for when, duplicate := range map[string]answer{"soon": again, "late": late} {
		if duplicate.status != first.status || duplicate.body != first.body || duplicate.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("duplicate, %s: %+v; the first was %+v", when, duplicate, first)
		}
	}
	if other := send(`{"amount": 999}`); other.status != http.StatusUnprocessableEntity {
		t.Errorf("another body under the same key: %+v", other)
	}
}

// untilDone looks a message up until it has been processed and published.
func (x *sandbox) untilDone(t *testing.T, stream, id string) {
	t.Helper()
	await(t, id+" is done", func() (bool, error) {
		a, err := x.ask(t.Context(), "GET", "/v1/streams/"+stream+"/messages/"+id, "")
		if err == nil && a.status == http.StatusNotFound {
			return false, nil // a message that came by SQS has no token before it is done
		}
		if err == nil && a.status != http.StatusOK {
			err = fmt.Errorf("look up: %+v", a)
		}
		return strings.Contains(a.body, `"status":"done"`), err
	})
}

func aWaitingCallerIsToldWhenItIsDone(t *testing.T, x *sandbox) {
	for range 2 {
		await(t, "done in time", func() (bool, error) { // the first time may take longer than a caller can wait
			a, err := x.ask(t.Context(), "POST", "/v1/streams/keyed/messages", "now", "Idempotency-Key", `"`+x.name("w")+`"`, "Prefer", "wait=5")
			if err == nil && a.status >= 300 {
				err = fmt.Errorf("answer %+v", a)
			}
			return strings.Contains(a.body, `"status":"done"`), err
		})
	}
	x.want(t, "keyed", sent{id: x.name("w"), body: []byte("now")})
}

func manyAtOnceGetOneAnswer(t *testing.T, x *sandbox) {
	const callers = 8
	answers := make([]answer, callers)
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			answers[i], errs[i] = x.ask(t.Context(), "POST", "/v1/streams/keyed/messages", "one", "Idempotency-Key", `"`+x.name("m")+`"`)
		})
	}
	wg.Wait()
	must(t, errs...)
	fresh := 0
	for _, a := range answers {
		if a.status != http.StatusAccepted || a.body != answers[0].body {
			t.Errorf("answer %+v, and to another %+v", a, answers[0])
		}
		if a.header.Get("Idempotent-Replayed") == "" {
			fresh++
		}
	}
	if fresh != 1 {
		t.Errorf("%d callers were told that their message is new", fresh)
	}
	x.want(t, "keyed", sent{id: x.name("m"), body: []byte("one")})
}

func whatIsWrongWithARequestIsAProblem(t *testing.T, x *sandbox) {
	for _, c := range []struct {
		path, key string
		status    int
	}{
		{"/v1/streams/keyed/messages", "", http.StatusBadRequest},
		{"/v1/streams/keyed/messages", `""`, http.StatusBadRequest},
		{"/v1/streams/nobody/messages", `"` + x.name("k") + `"`, http.StatusNotFound},
	} {
		var header []string
		if c.key != "" {
			header = []string{"Idempotency-Key", c.key}
		}
		a := x.must(t, "POST", c.path, "x", header...)
		if a.status != c.status || a.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s with key %q: %+v", c.path, c.key, a)
		}
	}
	if a := x.must(t, "GET", "/v1/streams/keyed/messages/"+x.name("never"), ""); a.status != http.StatusNotFound {
		t.Errorf("look up of what nobody sent: %+v", a)
	}
}

func aOneTimeRequestIsStoredRunAndForgottenOnce(t *testing.T, x *sandbox) {
	path := "/v1/streams/keyed/requests/" + x.name("r")
	for _, step := range []struct {
		method, body string
		status       int
	}{
		{"POST", "", http.StatusNotFound},
		{"PUT", "pay", http.StatusCreated},
		{"PUT", "pay", http.StatusOK},
		{"PUT", "pay twice", http.StatusUnprocessableEntity},
		{"POST", "", http.StatusOK},
		{"POST", "", http.StatusOK},
		{"DELETE", "", http.StatusNoContent},
		{"DELETE", "", http.StatusNoContent},
		{"POST", "", http.StatusGone},
	} {
		if a := x.must(t, step.method, path, step.body); a.status != step.status {
			t.Errorf("%s %q: %+v, want %d", step.method, step.body, a, step.status)
		}
	}
	x.want(t, "keyed", sent{id: x.name("r"), body: []byte("pay")})
}

// tidy takes the blanks at the braces out of JSON: the event source mapping of LocalStack reads a body that is JSON, and writes it anew without them.
func tidy(list []sent) []sent {
	for i, m := range list {
		if m.contentType == "application/json" {
			list[i].body = append(append([]byte("{"), bytes.Trim(m.body, "{ }")...), '}')
		}
	}
	return list
}

func messagesBySQSHaveOneEffectEach(t *testing.T, x *sandbox) {
	random := rand.New(rand.NewPCG(rand.Uint64(), 0))
	input := tidy(textual(generate(random, 60)))
	for i := range input {
		input[i].id, input[i].group = x.name(input[i].id), x.name(input[i].group)
	}
	concurrently(t.Context(), t, 4, batches(random, copies(random, input, 3)), x.sender("keyed").sendBatch)
	x.want(t, "keyed", input...)
}

func theFrontDoorsShareTheirMemory(t *testing.T, x *sandbox) {
	m := sent{id: x.name("s"), group: x.name("g"), contentType: "text/plain", body: []byte("by queue first")}
	must(t, x.sender("keyed").sendBatch(t.Context(), []sent{m}))
	x.want(t, "keyed", m)
	x.untilDone(t, "keyed", m.id)
	h := newHTTPSender(t, x.url, "keyed")
	must(t, h.send(t.Context(), m))
	if len(h.fresh) > 0 {
		t.Error("a message that had come by SQS was called new by HTTP")
	}
	other := sent{id: x.name("h"), group: x.name("g"), contentType: "text/plain", body: []byte("by request first")}
	must(t, h.send(t.Context(), other))
	for range 2 {
		must(t, x.sender("keyed").sendBatch(t.Context(), []sent{other}))
	}
	x.want(t, "keyed", m, other)
}

func aGroupKeepsTheOrderOfItsQueue(t *testing.T, x *sandbox) {
	q := x.sender("keyed")
	var input []sent
	var want []string
	for i := range 30 {
		body := fmt.Sprintf("%02d", i)
		input, want = append(input, sent{id: x.name(body), group: x.name("g"), body: []byte(body)}), append(want, body)
		q.raw(t, "ingress.fifo", x.name("g"), x.name(body), body, map[string]string{"once-stream": "keyed"})
	}
	if d := cmp.Diff(want, firsts(x.want(t, "keyed", input...))); d != "" {
		t.Errorf("order (-want +got):\n%s", d)
	}
}

func numberedMessagesComeOutInOrder(t *testing.T, x *sandbox) {
	const sources = 3
	random := rand.New(rand.NewPCG(rand.Uint64(), 0))
	input := tidy(textual(number(random, 60, sources)))
	want := map[string][]string{}
	for i := range input {
		m := &input[i]
		m.source, m.group = x.name(m.source), x.name(m.source)
		want[m.group] = append(want[m.group], string(m.body))
	}
	h, q := newHTTPSender(t, x.url, "numbered"), x.sender("numbered")
	concurrently(t.Context(), t, 4, copies(random, shuffle(random, input, 10*sources), 2), func(ctx context.Context, m sent) error {
		if m.sequence%2 == 0 {
			return h.send(ctx, m)
		}
		return q.send(ctx, way{queue: "ingress"}, m)
	})
	got := map[string][]string{}
	seen := map[string]bool{}
	for _, p := range x.want(t, "numbered", input...) {
		if !seen[p.webhookID] {
			got[p.group] = append(got[p.group], string(p.body))
		}
		seen[p.webhookID] = true
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("order (-want +got):\n%s", d)
	}
}

func unorderedMessagesHaveOneEffectEach(t *testing.T, x *sandbox) {
	var input []sent
	for i := range 20 {
		input = append(input, sent{id: x.name(fmt.Sprint(i)), contentType: "text/plain", body: fmt.Append(nil, i)})
	}
	h := newHTTPSender(t, x.url, "unordered")
	concurrently(t.Context(), t, 4, append(input, input...), h.send)
	x.want(t, "unordered", input...)
	h.judge(t)
}

func aReusedKeyIsDeadLettered(t *testing.T, x *sandbox) {
	q := x.sender("keyed")
	send := func(queue, group, id, body string) {
		attributes := map[string]string{"once-stream": "keyed", "once-id": x.name(id), "once-group": x.name(group)}
		if queue == "ingress" {
			q.raw(t, queue, "", "", body, attributes)
			return
		}
		q.raw(t, queue, x.name(group), x.name(id+"-"+strings.ReplaceAll(body, " ", "-")), body, attributes)
	}
	a := sent{id: x.name("a"), group: x.name("g"), body: []byte("first")}
	send("ingress.fifo", "g", "a", "first")
	x.want(t, "keyed", a)
	send("ingress.fifo", "g", "a", "something else")
	send("ingress.fifo", "g", "c", "after the poison")
	send("ingress", "h", "d", "in another group")
	x.wantLetters(t, "key-reuse keyed "+a.id)
	x.want(t, "keyed", a,
		sent{id: x.name("c"), group: x.name("g"), body: []byte("after the poison")},
		sent{id: x.name("d"), group: x.name("h"), body: []byte("in another group")})
}

func anUnknownTokenComesBackOnceIssued(t *testing.T, x *sandbox) {
	q, h := x.sender("issued"), newHTTPSender(t, x.url, "issued")
	m := sent{id: x.name("p-1"), group: x.name("g"), contentType: "text/plain", body: []byte("pay")}
	next := sent{id: x.name("p-2"), group: x.name("g"), body: []byte("the group goes on")}
	q.raw(t, "ingress.fifo", m.group, m.id, "pay", map[string]string{"once-stream": "issued", "Content-Type": "text/plain"})
	x.wantLetters(t, "unknown issued "+m.id)
	must(t, h.send(t.Context(), next))
	x.want(t, "issued", next)

	x.putBack(t, "unknown") // still nobody has issued it
	x.wantLetters(t, "unknown issued "+m.id)

	must(t, h.send(t.Context(), m)) // issues the token, and is processed by itself
	x.want(t, "issued", next, m)
	x.putBack(t, "unknown")
	x.wantLetters(t) // it was known as the same message
}

// aMessageOfAPrincipalComesBackAsItsPrincipals has a dead letter that is key reuse for its principal, and a new message for anybody else.
func aMessageOfAPrincipalComesBackAsItsPrincipals(t *testing.T, x *sandbox) {
	q := x.sender("keyed")
	a := sent{id: x.name("a"), group: x.name("g"), body: []byte("first")}
	send := func(body string) {
		q.raw(t, "ingress", "", "", body, map[string]string{
			"once-stream": "keyed", "once-id": a.id, "once-group": a.group, "once-meta": `{"principal":"iam:arn:aws:sts::000000000000:assumed-role/ann"}`,
		})
	}
	send("first")
	x.want(t, "keyed", a)
	send("something else")
	x.wantLetters(t, "key-reuse keyed "+a.id)
	if answer := x.must(t, "GET", "/v1/streams/keyed/messages/"+a.id, ""); answer.status != http.StatusNotFound {
		t.Errorf("somebody else looks it up: %+v", answer)
	}
	x.putBack(t, "key-reuse")
	x.wantLetters(t, "key-reuse keyed "+a.id)
	x.want(t, "keyed", a)
}

func malformedAttributesAreDeadLettered(t *testing.T, x *sandbox) {
	q := x.sender("numbered")
	q.raw(t, "ingress", "", "", "x", map[string]string{"once-stream": "numbered", "once-source": x.name("s"), "once-sequence": "seven"})
	x.wantLetters(t, "invalid numbered "+x.name("s")+"/0/0")
	q.raw(t, "ingress", "", "", "x", map[string]string{"once-stream": "numbered", "once-source": x.name("s"), "once-sequence": "1"})
	x.want(t, "numbered", sent{source: x.name("s"), sequence: 1, body: []byte("x")})
}

func numbersWithoutAPredecessorComeBackInOrder(t *testing.T, x *sandbox) {
	q := x.sender("failing")
	send := func(sequence string) {
		q.raw(t, "ingress", "", "", sequence, map[string]string{"once-stream": "failing", "once-source": x.name("s"), "once-sequence": sequence})
	}
	var input []sent
	for i := range 3 {
		input = append(input, sent{source: x.name("s"), sequence: uint64(i + 1), body: fmt.Append(nil, i+1)})
	}
	x.sweeps = true
	send("3")
	send("2")
	id := x.name("s") + "/0/"
	x.wantLetters(t, "gap failing "+id+"2", "gap failing "+id+"3")
	send("1")
	x.want(t, "failing", input[0])
	x.putBack(t, "gap")
	if d := cmp.Diff([]string{"1", "2", "3"}, firsts(x.want(t, "failing", input...))); d != "" {
		t.Errorf("order (-want +got):\n%s", d)
	}
	x.wantLetters(t)
}

func aStaleEpochIsDeadLettered(t *testing.T, x *sandbox) {
	q := x.sender("numbered")
	send := func(epoch, sequence string) {
		q.raw(t, "ingress", "", "", "from epoch "+epoch, map[string]string{
			"once-stream": "numbered", "once-source": x.name("s"), "once-epoch": epoch, "once-sequence": sequence,
		})
	}
	id := func(epoch string) string { return x.name("s") + "/" + epoch + "/1" }
	one, two := sent{id: id("1"), body: []byte("from epoch 1")}, sent{id: id("2"), body: []byte("from epoch 2")}
	send("1", "1")
	x.want(t, "numbered", one)
	send("2", "1")
	x.want(t, "numbered", one, two)
	send("1", "2")
	x.wantLetters(t, "stale-epoch numbered "+x.name("s")+"/1/2")
}

func everyDestinationGetsEveryMessageOnce(t *testing.T, x *sandbox) {
	const messages, groups = 24, 3
	h := newHTTPSender(t, x.url, "fanned")
	var input []sent
	for i := range messages {
		input = append(input, sent{id: x.name(fmt.Sprint("f", i)), group: x.name(fmt.Sprint("g", i%groups)), contentType: "text/plain", body: fmt.Appendf(nil, "%s%02d", x.prefix, i)})
	}
	concurrently(t.Context(), t, 4, append(input, input...), h.send)
	numbers := map[string]string{} // bodies by identity, as the receiver knows them
	for _, p := range x.want(t, "fanned", input...) {
		numbers[fmt.Sprintf("fanned/%s/%d", p.group, p.number)] = string(p.body)
	}
	x.wantForwarded(t, numbers)

	var chained []sent
	await(t, "messages of the next stream", func() (bool, error) {
		chained = nil
		posts, _ := x.receiver.seen()
		for _, p := range posts {
			if p.stream == "chained" && strings.HasPrefix(string(p.body), x.prefix) {
				chained = append(chained, sent{id: p.id, body: p.body})
			}
		}
		return len(chained) >= messages, nil
	})
	bodies := map[string]string{}
	for _, m := range chained {
		if id, ok := bodies[string(m.body)]; ok && id != m.id {
			t.Errorf("%s is both %s and %s of the next stream", m.body, id, m.id)
		}
		bodies[string(m.body)] = m.id
	}
	if len(bodies) != messages {
		t.Errorf("%d of %d messages at the next stream", len(bodies), messages)
	}
}

// wantForwarded checks that the queue has these messages, by identity, once each, and those of a group in the order of their numbers.
func (x *sandbox) wantForwarded(t *testing.T, want map[string]string) {
	t.Helper()
	var order []forwarded
	await(t, "messages on the queue", func() (bool, error) {
		all, err := x.forwarded()
		order = nil
		for _, m := range all {
			if strings.HasPrefix(m.body, x.prefix) {
				order = append(order, m)
			}
		}
		return len(order) >= len(want), err
	})
	got, last := map[string]string{}, map[string]int{}
	for _, m := range order {
		if _, ok := got[m.identity]; ok {
			t.Errorf("%s is on the queue twice", m.identity)
		}
		got[m.identity] = m.body
		cut := strings.LastIndexByte(m.identity, '/')
		var n int
		_, err := fmt.Sscan(m.identity[cut+1:], &n)
		must(t, err)
		if group := m.identity[:cut]; n <= last[group] {
			t.Errorf("%s comes after number %d", m.identity, last[group])
		} else {
			last[group] = n
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("messages on the queue (-want +got):\n%s", d)
	}
}
