package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/client"
)

// batch sends JSON lines and returns one text for each result: the status, the id of an accepted
// message, and replayed or the name of the problem.
func (x *sandbox) batch(t *testing.T, stream, body string, headers ...string) (results []string) {
	t.Helper()
	a := x.must(t, "POST", "/v1/streams/"+stream+"/batch", body, append([]string{"Content-Type", "application/x-ndjson"}, headers...)...)
	if a.status != http.StatusOK || a.header.Get("Content-Type") != "application/x-ndjson" {
		t.Fatalf("answer %+v", a)
	}
	for line := range strings.Lines(a.body) {
		var r struct {
			Status   int
			ID       string
			Replayed bool
			Problem  struct{ Type string }
		}
		must(t, json.Unmarshal([]byte(line), &r))
		text := fmt.Sprint(r.Status, " ", strings.TrimPrefix(r.ID, x.prefix))
		if r.Replayed {
			text += " replayed"
		}
		if _, name, is := strings.Cut(r.Problem.Type, "#"); is {
			text += name
		}
		results = append(results, text)
	}
	return results
}

func aBatchHasAResultForEachMessage(t *testing.T, x *sandbox) {
	body := fmt.Sprintf(`{"key":"%[1]sa","group":"%[1]sg","content_type":"text/plain","body":"one"}
{"key":"%[1]sb","boddy":1}

{"key":"%[1]sa","group":"%[1]sg","content_type":"text/plain","body":"one"}
{"key":"%[1]sa","group":"%[1]sg","content_type":"text/plain","body":"other"}
{"key":"%[1]sc","body_base64":"/wA="}
`, x.prefix)
	want := []string{"202 a", "400 malformed-request", "202 a replayed", "422 key-reuse", "202 c"}
	if d := cmp.Diff(want, x.batch(t, "keyed", body)); d != "" {
		t.Errorf("results (-want +got):\n%s", d)
	}
	x.want(t, "keyed", sent{id: x.name("a"), group: x.name("g"), contentType: "text/plain", body: []byte("one")}, sent{id: x.name("c"), body: []byte{255, 0}})
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := z.Write([]byte(body))
	must(t, err, z.Close())
	want = []string{"202 a replayed", "400 malformed-request", "202 a replayed", "422 key-reuse", "202 c replayed"}
	if d := cmp.Diff(want, x.batch(t, "keyed", packed.String(), "Content-Encoding", "gzip")); d != "" {
		t.Errorf("results of the compressed batch (-want +got):\n%s", d)
	}
	if a := x.must(t, "POST", "/v1/streams/keyed/batch", strings.Repeat("{}\n", 1001), "Content-Type", "application/x-ndjson"); a.status != http.StatusRequestEntityTooLarge {
		t.Errorf("1001 messages: %+v", a)
	}
	if a := x.must(t, "POST", "/v1/streams/keyed/batch", body); a.status != http.StatusUnsupportedMediaType {
		t.Errorf("no content type: %+v", a)
	}
}

func aBatchInCBORIsAnsweredInCBOR(t *testing.T, x *sandbox) {
	key := x.name("cbor")
	item := "\xa3\x63key\x78" + string(rune(len(key))) + key + "\x6ccontent_type\x6atext/plain\x64body\x43\x61\x62\x63"
	// a REST API returns bytes only to callers that accept them
	a := x.must(t, "POST", "/v1/streams/keyed/batch", item+item, "Content-Type", "application/cbor-seq", "Accept", "application/cbor-seq")
	if a.status != http.StatusOK || a.header.Get("Content-Type") != "application/cbor-seq" || strings.Count(a.body, "\x66status\x18\xca") != 2 || strings.Count(a.body, "\x68replayed\xf5") != 1 {
		t.Errorf("answer %d %v %x", a.status, a.header, a.body)
	}
	x.want(t, "keyed", sent{id: key, contentType: "text/plain", body: []byte("abc")})
}

// aBatchKeepsTheOrderOfItsGroups sends batches by the client, twice.
func aBatchKeepsTheOrderOfItsGroups(t *testing.T, x *sandbox) {
	const messages, groups = 60, 4
	h := newHTTPSender(t, x.url, "keyed")
	var batch []client.Message
	var input []sent
	for i := range messages {
		m := sent{id: x.name(fmt.Sprintf("%03d", i)), group: x.name(fmt.Sprint("g", i%groups)), contentType: "text/plain", body: fmt.Appendf(nil, "%03d", i)}
		input = append(input, m)
		batch = append(batch, client.Message{Stream: "keyed", Key: m.id, Group: m.group, ContentType: m.contentType, Body: m.body})
	}
	for range 2 {
		for _, r := range h.client.SendBatch(t.Context(), batch) {
			must(t, r.Err)
		}
	}
	last := map[string]string{}
	seen := map[string]bool{}
	for _, p := range x.want(t, "keyed", input...) {
		if seen[p.webhookID] {
			continue
		}
		seen[p.webhookID] = true
		if body := string(p.body); body <= last[p.group] {
			t.Errorf("group %s: %s after %s", p.group, body, last[p.group])
		} else {
			last[p.group] = body
		}
	}
}

func aNumberedBatchComesOutInOrder(t *testing.T, x *sandbox) {
	var lines strings.Builder
	var input []sent
	var want []string
	for _, n := range []uint64{2, 1, 3, 3} {
		m := sent{source: x.name("s"), sequence: n, group: x.name("s"), contentType: "text/plain", body: fmt.Append(nil, n)}
		fmt.Fprintf(&lines, `{"source":%q,"sequence":%d,"content_type":"text/plain","body":"%d"}`+"\n", m.source, n, n)
		if len(input) < 3 {
			input = append(input, m)
		}
	}
	for _, text := range []string{"2", "1", "3", "3 replayed"} {
		want = append(want, "202 s/0/"+text)
	}
	if d := cmp.Diff(want, x.batch(t, "numbered", lines.String())); d != "" {
		t.Errorf("results (-want +got):\n%s", d)
	}
	posts := x.want(t, "numbered", input...)
	if d := cmp.Diff([]string{"1", "2", "3"}, firsts(posts)); d != "" {
		t.Errorf("order (-want +got):\n%s", d)
	}
}
