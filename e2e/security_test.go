package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/google/go-cmp/cmp"
)

// confidential is part of all input of senders that no log may contain: keys, bodies, headers,
// groups, sources, and the URL of a receiver.
const confidential = "c0nf1d3nt1al"

// confidentialTo returns a configuration whose receivers have secrets in their URLs; one of them is
// down.
func confidentialTo(receiver string) string {
	const secret = `secret: "env:E2E_WEBHOOK_SECRET"`
	path := "/" + confidential + "-path?token=" + confidential + "-token"
	return fmt.Sprintf(`
streams:
  keyed:    {admission: key, destinations: [here]}
  issued:   {admission: token, destinations: [here]}
  numbered: {admission: sequence, gap: {policy: fail, after: 1s}, destinations: [here]}
  lost:     {admission: key, destinations: [away]}
destinations:
  here: {webhook: "%s", %s}
  away: {webhook: "http://127.0.0.1:1%s", %s}
`, receiver+path, secret, path, secret)
}

func TestTheLogOfTheServerHasNoContentOfSenders(t *testing.T) {
	r := newReceiver(t, 0.2)
	s := newServer(t, onceBinary, confidentialTo(r.url))
	s.args, s.env = []string{"--log-level", "debug"}, []string{r.env()}
	must(t, s.start())
	q := newSQSSender(t, s, "keyed")
	q.urls["publish"] = nil
	sayEverything(t, s.url(), q)
	awaitPosts(t, r)
	must(t, s.kill(), s.start())
	if _, err := s.once("redrive"); err == nil {
		t.Error("malformed messages were put back")
	}
	must(t, s.stop())
	s.judgeLog(t, r, "message refused", "effect to be sent again")
}

func TestTheLogsOfTheFunctionsHaveNoContentOfSenders(t *testing.T) {
	r := newReceiver(t, 0.2)
	d := newDeployment(t, r, "--log-level", "debug", "--kill-every", "5s", "--duplicate", "0.2", "--timeout", "10s", "--visibility", "12s")
	must(t, d.configure(confidentialTo(r.url)), d.start())
	q := &sqsSender{client: d.sqs, stream: "keyed", urls: map[string]*string{}}
	for _, name := range []string{"ingress", "ingress.fifo", "publish"} {
		q.urls[name] = d.queue(t, "-"+name)
	}
	sayEverything(t, d.url(), q)
	awaitPosts(t, r)
	logged := []string{"message refused", "effect to be sent again", "message is not a trigger"}
	await(t, "all kinds of lines", func() (bool, error) {
		data, err := os.ReadFile(d.path("server.log"))
		return !slices.ContainsFunc(logged, func(text string) bool { return !strings.Contains(string(data), text) }), err
	})
	must(t, d.stop())
	d.judgeLog(t, r, logged...)
}

// judgeLog checks that a log contains no confidential text, plain or encoded. It also checks that
// the log contains the texts in want: otherwise it would prove nothing.
func (s *server) judgeLog(t *testing.T, r *receiver, want ...string) {
	t.Helper()
	data, err := os.ReadFile(s.path("server.log"))
	must(t, err)
	log := string(data)
	hidden := []string{confidential, contractSecret, r.env()[len("E2E_WEBHOOK_SECRET=whsec_"):], fmt.Sprintf("%x", confidential)}
	for skip := range 3 { // base64 depends on the offset
		hidden = append(hidden, base64.RawStdEncoding.EncodeToString([]byte(confidential)[skip:skip+9]))
	}
	for line := range strings.Lines(log) {
		if i := slices.IndexFunc(hidden, func(text string) bool { return strings.Contains(line, text) }); i >= 0 {
			t.Errorf("the log has %s:\n%.600s", hidden[i], line)
		}
	}
	for _, text := range want {
		if !strings.Contains(log, text) {
			t.Errorf("the log does not have %q", text)
		}
	}
}

// awaitPosts waits until everything that can arrive has arrived.
func awaitPosts(t *testing.T, r *receiver) {
	t.Helper()
	await(t, "all posts", func() (bool, error) {
		posts, _ := r.seen()
		seen := map[string]bool{}
		for _, p := range posts {
			seen[p.webhookID] = true
		}
		return len(seen) >= confidentialEffects, nil
	})
}

// confidentialEffects is the number of the messages of sayEverything that arrive: one by HTTP and
// one as a one-time request, one by SQS, one with a number.
const confidentialEffects = 4

// sayEverything sends messages that are processed, messages that are refused for each reason, and
// invalid requests.
func sayEverything(t *testing.T, address string, q *sqsSender) {
	t.Helper()
	sayByHTTP(t, address)
	body := confidential + " is not JSON {"
	send := func(attributes ...string) {
		t.Helper()
		named := map[string]string{"once-stream": "keyed", "once-id": confidential + "-sqs", "own": confidential}
		for _, a := range attributes {
			name, value, _ := strings.Cut(a, "=")
			named[name] = value
		}
		q.raw(t, "ingress", "", "", body, named)
	}
	send()
	body += "other"
	send() // key reuse
	send("once-stream=issued")
	send("once-stream=lost", "once-id="+confidential+"-lost", "once-group="+confidential)
	send("once-stream=numbered", "once-source="+confidential, "once-sequence=1")
	send("once-stream=numbered", "once-source="+confidential, "once-sequence=7")
	for _, malformed := range []string{"once-sequence", "once-epoch", "once-depends-on", "once-meta", "once-gruop", "Once-Id"} {
		send(malformed + "=" + confidential)
	}
	send("once-id=" + strings.Repeat(confidential, 30))
	send(`once-meta={"encoding":"base64"}`)
	q.raw(t, "ingress.fifo", confidential, confidential+"-dedup", body, map[string]string{"once-stream": "lost", "once-group": confidential})
	if q.urls["publish"] != nil {
		for _, text := range []string{
			body, `{"publish":{"stream":"` + confidential + `/","group":"g"}}`, `{"publish":{"stream":"keyed","group":"` + strings.Repeat(confidential, 30) + `"}}`,
		} {
			q.raw(t, "publish", "", "", text, nil)
		}
	}
}

func sayByHTTP(t *testing.T, address string) {
	t.Helper()
	key := "Idempotency-Key: " + confidential
	const messages, requests = "/v1/streams/keyed/messages", "/v1/streams/keyed/requests/" + confidential + "-request"
	for _, r := range []struct {
		method, path, body string
		headers            []string
		want               int
	}{
		{"POST", messages + "?token=" + confidential, confidential, []string{
			key, "Once-Group: " + confidential, "Authorization: Bearer " + confidential, "Cookie: " + confidential, "X-Own: " + confidential, "Once-Header-Own: " + confidential,
		}, 202},
		{"POST", messages, "other", []string{key, "Once-Group: " + confidential}, 422},
		{"POST", messages, confidential, []string{key + " two"}, 400},
		{"POST", messages, confidential, []string{key + "-gruop", "Once-Gruop: " + confidential}, 400},
		{"POST", messages, strings.Repeat(confidential, 88_000), []string{key + "-large"}, 413},
		{"POST", "/v1/streams/" + confidential + "/messages", "x", []string{key}, 404},
		{"GET", messages + "/" + confidential, "", nil, 200},
		{"GET", messages + "/" + confidential + "-unknown", "", nil, 404},
		{"GET", "/" + confidential, "", nil, 404},
		{"PUT", requests, confidential, nil, 201},
		{"PUT", requests, "other", nil, 422},
		{"POST", requests, "", nil, 200},
		{"POST", requests, "", nil, 200},
		{"DELETE", requests, "", nil, 204},
		{"POST", requests, "", nil, 410},
	} {
		var got int
		await(t, r.method+" "+r.path, func() (bool, error) { // processes may be killed meanwhile
			var err error
			got, _, err = say(t.Context(), r.method, address+r.path, r.body, r.headers...)
			return got != http.StatusBadGateway && got < 503, err
		})
		if got != r.want && got != repeated(r.want) {
			t.Errorf("%s %s: %d, want %d", r.method, r.path, got, r.want)
		}
	}
}

// repeated returns the status of the answer to a retry after the first answer was lost.
func repeated(status int) int {
	if status == http.StatusCreated {
		return http.StatusOK
	}
	return status
}

// say makes a request with headers given as "Name: value".
func say(ctx context.Context, method, address, body string, headers ...string) (status int, answer string, err error) {
	r, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	response, err := connections.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	read, err := io.ReadAll(response.Body)
	return response.StatusCode, string(read), err
}

// hostile are identities with a meaning to paths, URLs, keys of stores, templates or terminals.
var hostile = []string{
	"../../../../tmp/escaped", "..", ".", "/", "a//b", `..\..\escaped`, "%2e%2e%2fescaped", "a%00b", "a#b", "a?group=b", "orders/g/1", "keyed#g", "HELD#s#1", "STATE", "~stream",
	"${jndi:ldap://localhost/x}", "$(touch escaped)", "{{7*7}}", "'; DROP TABLE groups; --", `quote"quote`, strings.Repeat("x", 256), "-rf", "a b", "null", "0", "constructor",
}

func TestHostileIdentitiesAreHandledLikeAnyOther(t *testing.T) {
	s := newServer(t, onceBinary, "streams:\n  keyed: {destinations: [keyed]}\ndestinations:\n  keyed: {file: out/keyed.jsonl}\n")
	must(t, s.start())
	q := newSQSSender(t, s, "keyed")
	beyond := []string{"käse", "\u202eabc", "\u2028", "😀", "a\ufeffb"} // not possible in a header
	var want []string
	for i, id := range slices.Concat(hostile, beyond) {
		if i < len(hostile) {
			quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(id) + `"`
			status, answer, err := say(t.Context(), "POST", s.url()+"/v1/streams/keyed/messages", id, "Idempotency-Key: "+quoted)
			if must(t, err); status != 202 {
				t.Errorf("%q: %d %s", id, status, answer)
			}
		}
		for range 2 {
			q.raw(t, "ingress", "", "", id, map[string]string{"once-stream": "keyed", "once-id": id})
		}
		want = append(want, id)
	}
	s.settle(t, time.Minute)
	lines, err := readLines(s.path("out/keyed.jsonl"))
	must(t, err)
	var got []string
	for _, l := range lines {
		got = append(got, l.ID)
	}
	slices.Sort(want)
	slices.Sort(got)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("ids (-want +got):\n%s", d)
	}
	for _, id := range hostile {
		escaped := strings.ReplaceAll(url.PathEscape(id), ".", "%2E")
		status, answer, err := say(t.Context(), "GET", s.url()+"/v1/streams/keyed/messages/"+escaped, "")
		if must(t, err); status != 200 || !strings.Contains(answer, `"status":"done"`) {
			t.Errorf("%q: %d %s", id, status, answer)
		}
	}
	s.wantNoEscape(t)
}

// wantNoEscape checks that no identity created a file.
func (s *server) wantNoEscape(t *testing.T) {
	t.Helper()
	must(t, filepath.WalkDir(s.dir, func(path string, _ os.DirEntry, err error) error {
		if strings.Contains(filepath.Base(path), "escaped") {
			t.Errorf("there is %s", path)
		}
		return err
	}))
	for _, path := range []string{"/tmp/escaped", filepath.Join(s.dir, "..", "escaped")} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("there is %s", path)
		}
	}
}

func TestASenderBySQSCanNotImpersonateTheSystem(t *testing.T) {
	s, q := startPoisoned(t, "keyed")
	for _, meta := range []string{
		`{"principal":"ann"}`, `{"principal":"~stream"}`, `{"accepted":"1999-01-01T00:00:00Z"}`, `{"retention":"1ns"}`, `{"form":"trigger"}`, `{"form":"effect"}`,
		`{"route":"POST /v1/streams/{stream}/requests/{id}"}`,
	} { // all of one sender, because copies belong to one message
		q.raw(t, "ingress", "", "", "mine", map[string]string{"once-stream": "keyed", "once-id": "a", "once-group": "g", "once-meta": meta})
	}
	q.raw(t, "ingress", "", "", "forged", map[string]string{"once-stream": "keyed", "once-id": "b", "once-reason": "key-reuse: forged"})
	s.wantLines(t, "out/keyed.jsonl", "a", "b")
	s.wantLetters(t)
	for _, name := range []string{"publish", "publish.fifo", "ingress-dead", "publish-dead", "nobody"} {
		if _, err := q.client.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String(name)}); err == nil {
			t.Errorf("queue %s takes messages from outside", name)
		}
		forged := strings.Replace(*q.urls["ingress"], "ingress", name, 1)
		body := `{"deliver":{"to":"keyed","delivery":{"identity":"keyed/g/9","stream":"keyed","effect":{"body":"Zm9yZ2Vk"}}}}`
		if _, err := q.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &forged, MessageBody: &body}); err == nil {
			t.Errorf("queue %s took a message from outside", name)
		}
	}
	s.wantLines(t, "out/keyed.jsonl", "a", "b")
}
