package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

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

	x.putBack(t, "unknown") // its token is still not issued
	x.wantLetters(t, "unknown issued "+m.id)

	must(t, h.send(t.Context(), m)) // issues the token, and is processed by itself
	x.want(t, "issued", next, m)
	x.putBack(t, "unknown")
	x.wantLetters(t) // it was known as the same message
}

// aMessageOfAPrincipalComesBackAsItsPrincipals redrives a dead letter that is key reuse for its
// principal, and a new message for any other.
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
