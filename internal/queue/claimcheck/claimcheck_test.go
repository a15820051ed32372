package claimcheck_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/claimcheck"
)

// memory keeps bodies; put and get are the errors of its methods.
type memory struct {
	kept     map[string][]byte
	put, get error
}

func (m *memory) Put(_ context.Context, name string, body []byte) error {
	if m.kept == nil {
		m.kept = map[string][]byte{}
	}
	m.kept[name] = slices.Clone(body)
	return m.put
}

func (m *memory) Get(_ context.Context, name string) ([]byte, bool, error) {
	body, ok := m.kept[name]
	return body, ok, m.get
}

func trusts(d *queue.Delivery) bool { return d.Sender == "own" }

const text = "käse"

func put(t *testing.T, bodies claimcheck.Bodies) queue.Delivery {
	t.Helper()
	m, err := claimcheck.Put(t.Context(), bodies, queue.Message{Body: text, Attributes: map[string]string{"a": "b"}, Sender: "own"})
	if err != nil {
		t.Fatal(err)
	}
	return queue.Delivery{Message: m}
}

func TestAReceiverGetsTheMessageThatWasSent(t *testing.T) {
	bodies := &memory{}
	for range 2 { // a copy of the message, too
		d := put(t, bodies)
		if strings.Contains(d.Body, text) || d.Attributes["a"] != "b" {
			t.Errorf("in the queue: %+v", d.Message)
		}
		list := []queue.Delivery{d, {Message: queue.Message{Body: "small"}}, d}
		claimcheck.Redeem(t.Context(), bodies, trusts, list)
		for i, want := range []string{text, "small", text} {
			if d := list[i]; d.Body != want || d.Unread != nil || d.Attributes[claimcheck.Attribute] != "" {
				t.Errorf("%d: %+v", i, d)
			}
		}
	}
	if len(bodies.kept) != 2 {
		t.Errorf("two messages have %d bodies", len(bodies.kept))
	}
}

func TestTheCallersMessageIsNotChanged(t *testing.T) {
	m := queue.Message{Body: text, Attributes: map[string]string{"a": "b"}}
	if _, err := claimcheck.Put(t.Context(), &memory{}, m); err != nil || m.Body != text || !maps.Equal(m.Attributes, map[string]string{"a": "b"}) {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestABodyThatCanNotBeWrittenIsAnError(t *testing.T) {
	away := errors.New("away") // it may be there nevertheless
	if _, err := claimcheck.Put(t.Context(), &memory{put: away}, queue.Message{Body: text}); !errors.Is(err, away) {
		t.Errorf("got %v", err)
	}
}

func TestABodyThatIsNotReadIsAnErrorAndNeverEmpty(t *testing.T) {
	good := &memory{}
	d := put(t, good)
	name := d.Attributes[claimcheck.Attribute]
	away := errors.New("away")
	for what, c := range map[string]struct {
		bodies claimcheck.Bodies
		want   string
	}{
		"no bucket":     {nil, "knows none"},
		"no object":     {&memory{}, "no such object"},
		"no answer":     {&memory{kept: good.kept, get: away}, "away"},
		"another body":  {&memory{kept: map[string][]byte{name: []byte("other")}}, "not the body that was sent"},
		"an empty body": {&memory{kept: map[string][]byte{name: {}}}, "not the body that was sent"},
	} {
		list := []queue.Delivery{d}
		claimcheck.Redeem(t.Context(), c.bodies, trusts, list)
		got := list[0]
		if got.Unread == nil || !strings.Contains(got.Unread.Error(), c.want) || !strings.Contains(got.Unread.Error(), name) || got.Body == "" {
			t.Errorf("%s: %q, %v", what, got.Body, got.Unread)
		}
		if d.Attributes[claimcheck.Attribute] != name {
			t.Errorf("%s: the name is gone from the message", what)
		}
	}
}

func TestTheNamesOfOtherSendersAreNotFollowed(t *testing.T) {
	bodies := &memory{}
	d := put(t, bodies)
	d.Sender = "mallory"
	list := []queue.Delivery{d}
	claimcheck.Redeem(t.Context(), bodies, trusts, list)
	if got := list[0]; got.Body != d.Body || got.Unread != nil || got.Attributes[claimcheck.Attribute] == "" {
		t.Errorf("%+v", got)
	}
}

func TestANameLeadsToNoOtherObjectsOfTheBucket(t *testing.T) {
	for _, name := range []string{"", "a", "../.claims/x-y", "a/b-c"} {
		bodies := &memory{kept: map[string][]byte{name: []byte("secret")}}
		list := []queue.Delivery{{Message: queue.Message{Body: "x", Sender: "own", Attributes: map[string]string{claimcheck.Attribute: name}}}}
		claimcheck.Redeem(t.Context(), bodies, trusts, list)
		if list[0].Unread == nil || list[0].Body == "secret" {
			t.Errorf("%q: %+v", name, list[0])
		}
	}
}
