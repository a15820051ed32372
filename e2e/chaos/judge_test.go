package chaos

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// evidence returns the evidence of a good run, by file: two keyed messages of one group, two
// numbered ones, one key reuse by HTTP and one by SQS.
func evidence(t *testing.T) map[string][]string {
	t.Helper()
	offers := []Offer{
		{Stream: "keyed", ID: "a", Group: "g", ContentType: "application/json", SHA256: Digest("application/json", []byte(`{"n": 1}`))},
		{Stream: "keyed", ID: "b", Group: "g", ContentType: "text/plain", SHA256: Digest("text/plain", []byte("two"))},
		{Stream: "numbered", ID: "s/0/1", Source: "s", Group: "s", Sequence: 1, ContentType: "application/octet-stream", SHA256: Digest("", []byte{0xff})},
		{Stream: "numbered", ID: "s/0/2", Source: "s", Group: "s", Sequence: 2, ContentType: "text/plain", SHA256: Digest("text/plain", []byte("x"))},
	}
	files := map[string][]string{
		"ledger.jsonl": {
			`{"stream":"keyed","group":"g","number":1,"id":"a","content_type":"application/json","body":{"n":1}}`,
			`{"stream":"keyed","group":"g","number":2,"id":"b","content_type":"text/plain","body":"two"}`,
			`{"stream":"numbered","group":"s","number":1,"id":"s/0/1","source":"s","sequence":1,"content_type":"application/octet-stream","body_base64":"/w=="}`,
			`{"stream":"numbered","group":"s","number":2,"id":"s/0/2","source":"s","sequence":2,"content_type":"text/plain","body":"x"}`,
		},
		"letters.jsonl": {`{"reason":"key-reuse","stream":"keyed","id":"b"}`},
		"run.json":      {`{"form":"test","destinations":{"keyed":["ledger","posts"],"numbered":["ledger","posts"]},"ordered":["keyed","numbered"]}`},
	}
	for i, o := range offers {
		files["offered.jsonl"] = append(files["offered.jsonl"], text(t, o))
		files["told.jsonl"] = append(files["told.jsonl"], text(t, told(o)))
		files["status.jsonl"] = append(files["status.jsonl"], text(t, Status{Stream: o.Stream, ID: o.ID, Status: "done"}))
		p := Post{Stream: o.Stream, ID: o.ID, WebhookID: o.Stream + "/" + string(rune('1'+i)), Group: o.Group, Number: uint64(i + 1), ContentType: o.ContentType, SHA256: o.SHA256}
		files["posts.jsonl"] = append(files["posts.jsonl"], text(t, p), text(t, p))
	}
	again := told(offers[0])
	again.Replayed = true
	files["told.jsonl"] = append(files["told.jsonl"], text(t, again),
		text(t, Answer{Stream: "keyed", ID: "a", Way: "http", Code: 422, Reuse: true}), text(t, Answer{Stream: "keyed", ID: "b", Way: "sqs", Code: 200, Reuse: true}))
	return files
}

// told returns the answer to a client that sends a new message.
func told(o Offer) Answer {
	return Answer{Stream: o.Stream, ID: o.ID, Way: "http", Code: 202, Status: "accepted", Group: o.Group, Location: "/" + o.Stream + "/" + o.ID}
}

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func judged(t *testing.T, files map[string][]string) *Verdict {
	t.Helper()
	folder := t.TempDir()
	for name, lines := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(strings.Join(append(lines, ""), "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	v, err := Judge(folder)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestTheJudgeCountsAGoodRun(t *testing.T) {
	v := judged(t, evidence(t))
	got := [...]int{v.Offered, v.Answers, v.Accepted, v.Applied, v.Sent, v.Repeated, v.Refused, v.Lost, v.Doubled, v.Wrong}
	if want := [...]int{4, 7, 4, 4, 8, 4, 2, 0, 0, 0}; got != want || !v.OK() {
		t.Errorf("offered, answers, accepted, applied, sent, repeated, refused, lost, doubled, wrong: %v, want %v; %q", got, want, v.Problems)
	}
}

func TestTheJudgeFindsEveryFault(t *testing.T) {
	for name, c := range map[string]struct {
		file               string
		change             func(lines []string) []string
		lost, doubled, bad int
		unaccepted         bool
	}{
		"a line is missing":                  {file: "ledger.jsonl", change: drop(1), lost: 1},
		"a line is there twice":              {file: "ledger.jsonl", change: add(`{"stream":"keyed","group":"g","number":1,"id":"a","content_type":"application/json","body":{"n":1}}`), doubled: 1},
		"a line is there under a new number": {file: "ledger.jsonl", change: add(`{"stream":"keyed","group":"g","number":3,"id":"a","content_type":"application/json","body":{"n":1}}`), doubled: 1},
		"a line has another body":            {file: "ledger.jsonl", change: swap(`"two"`, `"three"`), bad: 1},
		"a line has another kind of body":    {file: "ledger.jsonl", change: swap(`"text/plain","body":"two"`, `"text/html","body":"two"`), bad: 1},
		"a line has another group":           {file: "ledger.jsonl", change: swap(`"g","number":2`, `"h","number":2`), bad: 1},
		"a line has another source":          {file: "ledger.jsonl", change: swap(`"source":"s","sequence":2`, `"source":"t","sequence":2`), bad: 1},
		"a line has no number":               {file: "ledger.jsonl", change: swap(`"g","number":2`, `"g"`), bad: 1},
		"lines of a group are turned round":  {file: "ledger.jsonl", change: turn(0, 1), bad: 1},
		"lines of a source are turned round": {file: "ledger.jsonl", change: turn(2, 3), bad: 3},
		"a line that nobody sent":            {file: "ledger.jsonl", change: add(`{"stream":"keyed","id":"q"}`), bad: 1},

		"a post is missing":                  {file: "posts.jsonl", change: func(l []string) []string { return l[2:] }, lost: 1},
		"a message has two effects":          {file: "posts.jsonl", change: swapLast(`keyed/2`, `keyed/3`), doubled: 1},
		"two messages have one identity":     {file: "posts.jsonl", change: swap(`"webhook_id":"keyed/2"`, `"webhook_id":"keyed/1"`), lost: 1, bad: 2},
		"a post has another body":            {file: "posts.jsonl", change: swap(Digest("", []byte("two")), Digest("", []byte("3"))), bad: 2},
		"a post has another kind of body":    {file: "posts.jsonl", change: swapLast(`octet-stream`, `pdf`), bad: 1},
		"a post has another group":           {file: "posts.jsonl", change: swapLast(`"group":"g"`, `"group":"h"`), bad: 1},
		"a post has no number":               {file: "posts.jsonl", change: swap(`"group":"g","number":2`, `"group":"g"`), bad: 1},
		"a post is badly signed":             {file: "posts.jsonl", change: swapLast(`"sha256"`, `"wrong":"signature","sha256"`), bad: 1},
		"a post that nobody sent":            {file: "posts.jsonl", change: add(`{"stream":"keyed","id":"q","webhook_id":"keyed/9"}`), bad: 1},
		"posts of a group are turned round":  {file: "posts.jsonl", change: turn(0, 3), bad: 1},
		"posts of a source are turned round": {file: "posts.jsonl", change: turn(4, 7), bad: 3},

		"a message is not done":             {file: "status.jsonl", change: swap(`"id":"b","status":"done"`, `"id":"b","status":"committed"`), lost: 1},
		"a message is not known in the end": {file: "status.jsonl", change: drop(0), lost: 1},
		"a status of what nobody sent":      {file: "status.jsonl", change: add(`{"stream":"keyed","id":"q","status":"done"}`), bad: 1},

		"nobody was told of a message":                {file: "told.jsonl", change: drop(2), unaccepted: true},
		"a client was told an error":                  {file: "told.jsonl", change: add(`{"stream":"keyed","id":"a","way":"http","code":500}`), bad: 1},
		"two clients were told that it is new":        {file: "told.jsonl", change: swap(`,"replayed":true`, ``), bad: 1},
		"a client was told of another state":          {file: "told.jsonl", change: swapLast(`"status":"accepted"`, `"status":"rejected"`), bad: 1},
		"a client was told of another group":          {file: "told.jsonl", change: swapLast(`"group":"g"`, `"group":"h"`), bad: 2},
		"a client was told to look somewhere else":    {file: "told.jsonl", change: swapLast(`/keyed/a`, `/keyed/b`), bad: 1},
		"a client was told of what nobody sent":       {file: "told.jsonl", change: add(`{"stream":"keyed","id":"q","way":"http","code":202}`), bad: 1},
		"other content was accepted":                  {file: "told.jsonl", change: swap(`422`, `202`), bad: 1},
		"other content by SQS was refused by nothing": {file: "letters.jsonl", change: func([]string) []string { return nil }, bad: 1},

		"a message ended as a dead letter":     {file: "letters.jsonl", change: add(`{"reason":"unknown","stream":"keyed","id":"a"}`), bad: 1},
		"a message is taken for other content": {file: "letters.jsonl", change: add(`{"reason":"key-reuse","stream":"numbered","id":"s/0/1"}`), bad: 1},

		"something is left over":        {file: "run.json", change: swap(`{"form":"test"`, `{"form":"test","left":["one pending"]`), bad: 1},
		"nobody says where messages go": {file: "run.json", change: swap(`"keyed":["ledger","posts"],`, ``), bad: 2},
		"a message was made twice":      {file: "offered.jsonl", change: add(`{"stream":"keyed","id":"q"}`, `{"stream":"keyed","id":"q"}`), bad: 1, unaccepted: true},
	} {
		t.Run(name, func(t *testing.T) {
			files := evidence(t)
			before := strings.Join(files[c.file], "\n")
			files[c.file] = c.change(files[c.file])
			if strings.Join(files[c.file], "\n") == before {
				t.Fatal("nothing was changed")
			}
			v := judged(t, files)
			if v.Lost != c.lost || v.Doubled != c.doubled || v.Wrong != c.bad || v.OK() || c.unaccepted != (v.Accepted < v.Offered) {
				t.Errorf("lost %d, doubled %d, wrong %d, accepted %d of %d: %q", v.Lost, v.Doubled, v.Wrong, v.Accepted, v.Offered, v.Problems)
			}
		})
	}
}

func TestAnAcceptedMessageWithoutAnEffectIsLost(t *testing.T) {
	files := evidence(t)
	for _, name := range []string{"status.jsonl", "ledger.jsonl", "posts.jsonl"} {
		files[name] = slices.DeleteFunc(files[name], func(line string) bool { return strings.Contains(line, `"id":"s/0/2"`) })
	}
	// it is not done, and has no line and no post
	if v := judged(t, files); v.Lost != 3 || v.Doubled+v.Wrong > 0 || v.OK() {
		t.Errorf("%+v", v)
	}
}

func TestARunWithoutOffersIsNotOK(t *testing.T) {
	if v := judged(t, map[string][]string{"run.json": evidence(t)["run.json"]}); v.OK() {
		t.Errorf("%+v", v)
	}
}

func TestACutLineIsAnError(t *testing.T) {
	folder := t.TempDir()
	for name, lines := range evidence(t) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(strings.TrimSuffix(strings.Join(lines, "\n"), "}")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if v, err := Judge(folder); err == nil {
		t.Errorf("judged %+v", v)
	}
}

func TestTheJudgeSharesNoCodeWithTheProduct(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	own := map[string]bool{"github.com/effectively-once/once/e2e/chaos": true, "github.com/effectively-once/once/e2e/chaos/judge": true}
	got := map[string]bool{}
	for path := range strings.FieldsSeq(string(out)) {
		got[path] = true
	}
	if !maps.Equal(got, own) {
		t.Errorf("the judge is made of %v", got)
	}
}

// The changes from which faults are combined.

func drop(i int) func([]string) []string {
	return func(l []string) []string { return append(append([]string(nil), l[:i]...), l[i+1:]...) }
}

func add(lines ...string) func([]string) []string {
	return func(l []string) []string { return append(l, lines...) }
}

func turn(i, j int) func([]string) []string {
	return func(l []string) []string {
		l[i], l[j] = l[j], l[i]
		return l
	}
}

// swap replaces a text in every line.
func swap(from, to string) func([]string) []string {
	return func(l []string) []string {
		return strings.Split(strings.ReplaceAll(strings.Join(l, "\n"), from, to), "\n")
	}
}

// swapLast replaces a text in the last line that contains it.
func swapLast(from, to string) func([]string) []string {
	return func(l []string) []string {
		for i := len(l) - 1; i >= 0; i-- {
			if strings.Contains(l[i], from) {
				l[i] = strings.Replace(l[i], from, to, 1)
				break
			}
		}
		return l
	}
}
