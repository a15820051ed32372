package embedded_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/effectively-once/once/client"
)

// A call is a request of the Durable Streams protocol, and the expected answer.
type call struct {
	method, path, body string
	headers            string // "Name: value" in lines
	status             int
	want               string // the body
	has                string // "Name: value" of the answer
}

func (r *running) call(t *testing.T, c call) string {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), c.method, "http://"+r.address+"/v1/stream/"+c.path, strings.NewReader(c.body))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(c.headers, "\n") {
		if name, value, ok := strings.Cut(line, ": "); ok {
			q.Header.Set(name, value)
		}
	}
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	name, value, _ := strings.Cut(c.has, ": ")
	if answer.StatusCode != c.status || c.want != "" && string(text) != c.want || name != "" && answer.Header.Get(name) != value {
		t.Errorf("%s %s: %d %s %v", c.method, c.path, answer.StatusCode, text, answer.Header)
	}
	return answer.Header.Get("Stream-Next-Offset")
}

const (
	jsonValues = "Content-Type: application/json"
	first      = jsonValues + "\nProducer-Id: p\nProducer-Epoch: 0\nProducer-Seq: 0"
)

func TestADurableStreamSurvivesARestartWithItsProducers(t *testing.T) {
	t.Parallel()
	p := &place{t: t, dir: t.TempDir(), config: endable}
	r := p.start()
	r.call(t, call{method: "PUT", path: "room/g", headers: jsonValues, status: 201})
	r.call(t, call{method: "POST", path: "room/g", headers: first, body: `[1,{"a":2}]`, status: 200})
	r.stop()
	r = p.start()
	defer r.stop()
	r.call(t, call{method: "POST", path: "room/g", headers: first, body: `[1,{"a":2}]`, status: 204, has: "Producer-Seq: 0"})
	r.send(t, client.Message{Stream: "room", Key: "k", Group: "g", ContentType: "application/json", Body: []byte("3")})
	r.call(t, call{method: "GET", path: "room/g", status: 200, want: `[1,{"a":2},3]`})
}

func TestADeletedDurableStreamIsNotContinued(t *testing.T) {
	t.Parallel()
	r := (&place{t: t, dir: t.TempDir(), config: endable}).start()
	defer r.stop()
	r.call(t, call{method: "PUT", path: "room/g", headers: jsonValues + "\nStream-Closed: true", body: "[1]", status: 201})
	old := r.call(t, call{method: "GET", path: "room/g", status: 200, want: "[1]", has: "Stream-Closed: true"})
	r.call(t, call{method: "DELETE", path: "room/g", status: 204})
	r.call(t, call{method: "GET", path: "room/g", status: 404})
	r.call(t, call{method: "PUT", path: "room/g", headers: jsonValues, body: "[2]", status: 201})
	r.call(t, call{method: "GET", path: "room/g", status: 200, want: "[2]"})
	r.call(t, call{method: "GET", path: "room/g?offset=" + old, status: 410})
}

func TestAnOrdinaryLogIsADurableStreamOfValues(t *testing.T) {
	t.Parallel()
	r := (&place{t: t, dir: t.TempDir(), config: endable}).start()
	defer r.stop()
	r.send(t, client.Message{Stream: "room", Key: "k", Group: "g", ContentType: "text/plain", Body: []byte("hello")})
	r.send(t, client.Message{Stream: "chat", Source: "ann", Sequence: 1, Group: "g", ContentType: "application/json", Body: []byte("1")})
	r.call(t, call{method: "GET", path: "room/g", status: 200, want: `["hello"]`})
	r.call(t, call{method: "GET", path: "chat/g", status: 200, want: `[1]`})
	r.call(t, call{method: "POST", path: "chat/g", headers: jsonValues, body: "2", status: 405})
	r.call(t, call{method: "GET", path: "plain/g", status: 404})
}

// The state of such a stream belongs to its log, and nobody could delete it when the log is gone.
func TestADurableStreamIsForgottenAsALogIs(t *testing.T) {
	t.Parallel()
	r := (&place{t: t, dir: t.TempDir(), config: endable}).start()
	defer r.stop()
	r.call(t, call{method: "PUT", path: "room/g", headers: jsonValues, body: "[1]", status: 201})
	r.call(t, call{method: "POST", path: "room/g", headers: first, body: "[2]", status: 200})
	r.send(t, client.Message{Stream: "room", Key: "k", Group: "g", ContentType: "application/json", Body: []byte("3")})
	if g, err := r.Group(t.Context(), "room", "g"); err != nil || g.Expires == nil {
		t.Errorf("group %+v expires never, %v", g, err)
	}
}
