package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/effectively-once/once"
	"github.com/effectively-once/once/internal/aws/awsconfig"
	"github.com/effectively-once/once/oncedynamo"
)

// An old service is a program with Powertools, its table, and what it has answered.
type oldService struct {
	client   *dynamodb.Client
	command  []string
	language oncedynamo.PowertoolsLanguage
	// The prefixes of its two functions.
	work, charge string

	table, tokens, once string
	payloads            [][]byte
	replies             []json.RawMessage
}

func TestMigrateAnswersEveryOldKeyWithItsOldReply(t *testing.T) {
	if os.Getenv(endpointVariable) == "" {
		t.Skipf("%s is not set: put localstack/aws.sh run in front of the command", endpointVariable)
	}
	install := exec.CommandContext(t.Context(), "../peers/install.sh")
	install.Stderr = os.Stderr
	out, err := install.Output()
	if err != nil {
		t.Fatalf("install peers: %v", err)
	}
	binary := filepath.Join(t.TempDir(), "once")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./cmd/once")
	build.Dir = "../.."
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build once: %v\n%s", err, text)
	}
	cfg, err := awsconfig.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	client := dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) { o.DisableValidateResponseChecksum = true })
	for _, old := range []*oldService{
		{command: []string{strings.TrimSpace(string(out)), "../peers/python/store.py"}, language: oncedynamo.Python, work: "bench.__main__.work", charge: "bench.__main__.charge"},
		{command: []string{"node", "../../.tools/peers/typescript/store.mjs"}, language: oncedynamo.TypeScript, work: "bench", charge: "bench"},
	} {
		t.Run(string(old.language), func(t *testing.T) {
			t.Parallel()
			old.client, old.once = client, binary
			old.test(t)
		})
	}
}

func (o *oldService) test(t *testing.T) {
	o.makeTables(t)
	text, err := os.ReadFile("testdata/payloads.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	o.payloads = bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	o.replies = o.run(t, o.payloads)
	if len(o.replies) != len(o.payloads)-1 {
		t.Fatalf("%d replies to %d payloads; want one each, but none to the last, in which the program dies", len(o.replies), len(o.payloads))
	}
	o.wantKeys(t)
	for _, scope := range [][]string{{"--stream", "jobs"}, {"--middleware", "charges"}} {
		all := len(o.replies)
		o.wantCounts(t, append(scope, "--dry-run"), map[string]int{"copied": all, "leased": 1})
		o.wantCounts(t, scope, map[string]int{"copied": all, "leased": 1})
		o.wantCounts(t, scope, map[string]int{"present": all + 1})
	}
	o.wantDecorator(t)
	o.wantMiddleware(t)
	o.wantNoNewerTokenOverwritten(t)
	o.wantLaterCompletionCopied(t)
}

func (o *oldService) makeTables(t *testing.T) {
	t.Helper()
	o.table, o.tokens = "old-"+rand.Text(), "tokens-"+rand.Text()
	_, err := o.client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: &o.table, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := oncedynamo.CreateTable(t.Context(), o.client, o.tokens); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, table := range []string{o.table, o.tokens} {
			if _, err := o.client.DeleteTable(context.WithoutCancel(t.Context()), &dynamodb.DeleteTableInput{TableName: &table}); err != nil {
				t.Errorf("delete table: %v", err)
			}
		}
	})
}

// run runs the old service on payloads and returns its replies, until it has dealt with all of them
// or died.
func (o *oldService) run(t *testing.T, payloads [][]byte) (replies []json.RawMessage) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), o.command[0], append(o.command[1:], o.table)...)
	cmd.Env = append(os.Environ(), "AWS_LAMBDA_FUNCTION_NAME=bench", "AWS_DEFAULT_REGION="+os.Getenv("AWS_REGION"), "PYTHONIOENCODING=utf-8")
	cmd.Stdin = bytes.NewReader(append(bytes.Join(payloads, []byte("\n")), '\n'))
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if exit, died := errors.AsType[*exec.ExitError](err); err != nil && (!died || exit.ExitCode() != 9) {
		t.Fatalf("the old service: %v\n%s", err, problems.String())
	}
	for line := range bytes.Lines(out) {
		replies = append(replies, json.RawMessage(bytes.TrimSpace(line)))
	}
	return replies
}

func (o *oldService) items(t *testing.T) map[string]map[string]types.AttributeValue {
	t.Helper()
	out, err := o.client.Scan(t.Context(), &dynamodb.ScanInput{TableName: &o.table, ConsistentRead: aws.Bool(true)})
	if err != nil {
		t.Fatal(err)
	}
	items := map[string]map[string]types.AttributeValue{}
	for _, item := range out.Items {
		items[item["id"].(*types.AttributeValueMemberS).Value] = item
	}
	return items
}

// header returns the key in the headers of a payload, as JSON, or nil.
func header(payload []byte) json.RawMessage {
	var event struct {
		Headers map[string]json.RawMessage `json:"headers"`
	}
	if json.Unmarshal(payload, &event) != nil {
		return nil
	}
	return event.Headers["Idempotency-Key"]
}

// key returns the key of a payload.
func (o *oldService) key(t *testing.T, payload []byte) string {
	t.Helper()
	p := oncedynamo.Powertools{Language: o.language, Prefix: o.work}
	if selected := header(payload); selected != nil {
		p.Prefix, payload = o.charge, selected
	}
	key, err := p.Key(payload)
	if err != nil {
		t.Errorf("key of %s: %v", payload, err)
	}
	return key
}

func (o *oldService) wantKeys(t *testing.T) {
	t.Helper()
	items := o.items(t)
	for _, payload := range o.payloads {
		if key := o.key(t, payload); items[key] == nil {
			t.Errorf("the library has no record %s, which is ours for %s", key, payload)
		}
	}
	if len(items) != len(o.payloads) {
		t.Errorf("the library has %d records, want %d", len(items), len(o.payloads))
	}
}

func (o *oldService) wantCounts(t *testing.T, flags []string, want map[string]int) {
	t.Helper()
	args := append([]string{"migrate", "powertools", "--from", o.table, "--to", o.tokens, "--language", string(o.language), "--json"}, flags...)
	var problems bytes.Buffer
	cmd := exec.CommandContext(t.Context(), o.once, args...)
	cmd.Stderr = &problems
	out, err := cmd.Output()
	var got map[string]any
	if err := errors.Join(err, json.Unmarshal(out, &got)); err != nil {
		t.Fatalf("once %s: %v\n%s", strings.Join(args, " "), err, problems.String())
	}
	delete(got, "read")
	delete(got, "dry_run")
	maps.DeleteFunc(got, func(_ string, n any) bool { return n == 0.0 })
	wanted := map[string]any{}
	for name, n := range want {
		wanted[name] = float64(n)
	}
	if !reflect.DeepEqual(got, wanted) {
		t.Errorf("once %s: %v, want %v\n%s", strings.Join(flags, " "), got, wanted, problems.String())
	}
}

// open returns the new service's tokens.
func (o *oldService) open(t *testing.T) *once.Tokens {
	t.Helper()
	tokens, err := oncedynamo.Tokens(o.client, o.tokens)
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

// bodyOf returns the body of an outcome's reply, empty if there is none.
func bodyOf(o once.Outcome) string {
	if o.Reply == nil {
		return ""
	}
	return string(o.Reply.Body)
}

func equalJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if err := errors.Join(json.Unmarshal([]byte(a), &x), json.Unmarshal([]byte(b), &y)); err != nil {
		t.Errorf("no JSON: %s, %s", a, b)
	}
	return reflect.DeepEqual(x, y)
}

func (o *oldService) decorator(t *testing.T, runs *int) once.Guarded {
	t.Helper()
	return once.Leased(o.open(t), func(context.Context, once.Message) (once.Reply, error) {
		*runs++
		return once.Reply{Body: []byte("new")}, nil
	}, once.GuardConfig{})
}

func (o *oldService) wantDecorator(t *testing.T) {
	t.Helper()
	runs := 0
	work := o.decorator(t, &runs)
	for i, payload := range o.payloads {
		m := once.Message{Stream: "jobs", ID: o.key(t, payload), Body: payload}
		outcome, err := work(t.Context(), m)
		switch {
		case i == len(o.replies):
			if _, leased := errors.AsType[*once.LeasedError](err); !leased {
				t.Errorf("%s: %v, %v; want a lease, because it may still run", payload, outcome.Kind, err)
			}
		case header(payload) != nil: // an answer of HTTP, see wantMiddleware
		case err != nil || outcome.Kind != once.Duplicate || !equalJSON(t, bodyOf(outcome), string(o.replies[i])):
			t.Errorf("%s: %v, %s, %v; want the old reply %s", payload, outcome.Kind, bodyOf(outcome), err, o.replies[i])
		}
	}
	if runs != 0 {
		t.Errorf("the new handler ran %d times for old keys, want never", runs)
	}
	for range 2 {
		m := once.Message{Stream: "jobs", ID: o.key(t, []byte(`"new"`)), Body: []byte(`"new"`)}
		if outcome, err := work(t.Context(), m); err != nil || bodyOf(outcome) != "new" {
			t.Errorf("a new key: %s, %v; want the new reply", bodyOf(outcome), err)
		}
	}
	if runs != 1 {
		t.Errorf("the new handler ran %d times for a new key, want once", runs)
	}
}

func (o *oldService) wantMiddleware(t *testing.T) {
	t.Helper()
	runs := 0
	keys := oncedynamo.Powertools{Language: o.language, Prefix: o.charge}
	h := once.Middleware(o.open(t), once.MiddlewareConfig{
		Name: "charges",
		Key: func(r *http.Request, _ []byte) (string, error) {
			name, err := json.Marshal(r.Header.Get("Idempotency-Key"))
			if err != nil {
				return "", err
			}
			return keys.Key(name)
		},
	})(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { runs++ }))
	post := func(key, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "/charges", strings.NewReader(body))
		r.Header.Set("Idempotency-Key", key)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	charges := 0
	for i, payload := range o.payloads {
		selected := header(payload)
		if selected == nil {
			continue
		}
		charges++
		var key string
		var old struct{ Body string }
		if err := errors.Join(json.Unmarshal(selected, &key), json.Unmarshal(o.replies[i], &old)); err != nil {
			t.Fatal(err)
		}
		w := post(key, "a body")
		if w.Code != http.StatusCreated || w.Body.String() != old.Body || w.Header().Get("X-Charge") != "é" || w.Header().Get("Idempotent-Replayed") != "true" {
			t.Errorf("key %s: %d %v %s; want 201, the old headers and %s", key, w.Code, w.Header(), w.Body, old.Body)
		}
	}
	if runs != 0 || charges < 2 {
		t.Errorf("the new handler ran %d times for %d old keys, want never for at least 2", runs, charges)
	}
	post("new", "")
	post("new", "")
	if runs != 1 {
		t.Errorf("the new handler ran %d times for a new key, want once", runs)
	}
}

// The old service runs a key after the new one.
func (o *oldService) wantNoNewerTokenOverwritten(t *testing.T) {
	t.Helper()
	o.run(t, [][]byte{[]byte(`"new"`)})
	o.wantCounts(t, []string{"--stream", "jobs"}, map[string]int{"present": len(o.payloads), "newer": 1})
	runs := 0
	m := once.Message{Stream: "jobs", ID: o.key(t, []byte(`"new"`)), Body: []byte(`"new"`)}
	if outcome, err := o.decorator(t, &runs)(t.Context(), m); err != nil || bodyOf(outcome) != "new" || runs != 0 {
		t.Errorf("after the migration: %s, %v, %d runs; want the reply of the new service", bodyOf(outcome), err, runs)
	}
}

// The execution that was in progress ends after the first migration.
func (o *oldService) wantLaterCompletionCopied(t *testing.T) {
	t.Helper()
	last := o.payloads[len(o.payloads)-1]
	key := o.key(t, last)
	_, err := o.client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: &o.table, Key: map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: key}},
		UpdateExpression: aws.String("SET #s = :s, #d = :d"), ExpressionAttributeNames: map[string]string{"#s": "status", "#d": "data"},
		ExpressionAttributeValues: map[string]types.AttributeValue{":s": &types.AttributeValueMemberS{Value: "COMPLETED"}, ":d": &types.AttributeValueMemberS{Value: `"late"`}},
	})
	if err != nil {
		t.Fatal(err)
	}
	o.wantCounts(t, []string{"--stream", "jobs"}, map[string]int{"present": len(o.payloads) - 1, "newer": 1, "copied": 1})
	runs := 0
	outcome, err := o.decorator(t, &runs)(t.Context(), once.Message{Stream: "jobs", ID: key, Body: last})
	if err != nil || !slices.Contains([]string{`"late"`, `"\"late\""`}, bodyOf(outcome)) || runs != 0 {
		t.Errorf("after the migration: %s, %v, %d runs; want the late reply", bodyOf(outcome), err, runs)
	}
}
