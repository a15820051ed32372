package infra

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/jsii-runtime-go"
)

func TestMain(m *testing.M) {
	code := m.Run()
	jsii.Close()
	os.Exit(code)
}

// A template is a synthesized stack. The CDK's own assertions panic when they fail, so the tests
// decode it and compare data.
type template struct {
	Resources map[string]resource
	Outputs   map[string]struct{ Value any }
	// Parameters and Conditions come from the construct of a setting.
	Parameters        map[string]struct{ Default any }
	Conditions, Rules map[string]any

	text string // all of it

	warnings int // about the topic of alarms
}

type resource struct {
	Type                string
	Properties          map[string]any
	DeletionPolicy      string
	UpdateReplacePolicy string
	DependsOn           any
}

// testConfig has a destination of every kind that a deployed system supports.
const testConfig = `
streams:
  orders: {destinations: [shop, billing, abroad, topic, bus, next]}
  later:  {admission: sequence}
destinations:
  shop:    {webhook: "https://shop.example/hook", secret: "env:SHOP_SECRET"}
  billing: {sqs: billing.fifo}
  abroad:  {sqs: "https://sqs.eu-central-1.amazonaws.com/123456789012/abroad"}
  topic:   {sns: news.fifo}
  bus:     {eventbridge: default}
  next:    {stream: later}
`

// built caches templates by their context, because the CDK takes seconds for each.
var built = map[string]*template{}

// synth returns the template of a context, NAME=VALUE each, with functions that are empty.
func synth(t *testing.T, context ...string) *template {
	t.Helper()
	key := strings.Join(context, " ")
	if built[key] == nil {
		stack, err := build(t, context...)
		if err != nil {
			t.Fatal(err)
		}
		built[key] = stack
	}
	return built[key]
}

func build(t *testing.T, context ...string) (*template, error) {
	t.Helper()
	folder := bootstraps(t)
	config := filepath.Join(folder, "some.yaml")
	write(t, config, testConfig)
	values := map[string]any{"config": config, "assets": folder, "environment": "SHOP_SECRET=whsec_MTIz"}
	for _, item := range context {
		name, value, _ := strings.Cut(item, "=")
		values[name] = strings.ReplaceAll(value, "FOLDER", folder)
	}
	settings, err := parseSettings(values)
	if err != nil {
		return nil, err
	}
	stack, err := NewStack(NewApp(), settings)
	if err != nil {
		return nil, err
	}
	return templateOf(t, stack), nil
}

// bootstraps returns a folder with functions that are empty.
func bootstraps(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for _, name := range []string{"ingest", "process", "publish", "own"} {
		write(t, filepath.Join(folder, name, "bootstrap"), name)
	}
	return folder
}

func templateOf(t *testing.T, stack awscdk.Stack) *template {
	t.Helper()
	data, err := json.Marshal(assertions.Template_FromStack(stack, nil).ToJSON())
	if err != nil {
		t.Fatal(err)
	}
	out := &template{text: string(data)}
	if err := json.Unmarshal(data, out); err != nil {
		t.Fatal(err)
	}
	out.warnings = len(*assertions.Annotations_FromStack(stack).FindWarning(jsii.String("*"), assertions.Match_StringLikeRegexp(jsii.String("alarmTopic"))))
	return out
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// all returns the ids of the resources of a type, sorted. It fails the test unless there are as
// many as expected.
func (x *template) all(t *testing.T, kind string, expected int) []string {
	t.Helper()
	var ids []string
	for _, id := range slices.Sorted(maps.Keys(x.Resources)) {
		if x.Resources[id].Type == kind {
			ids = append(ids, id)
		}
	}
	if len(ids) != expected {
		t.Fatalf("%d of %s, want %d: %v", len(ids), kind, expected, ids)
	}
	return ids
}

// one returns the only resource of a type whose id contains part.
func (x *template) one(t *testing.T, kind, part string) (string, resource) {
	t.Helper()
	var found []string
	for id, r := range x.Resources {
		if r.Type == kind && strings.Contains(id, part) {
			found = append(found, id)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%s with %q: %v", kind, part, found)
	}
	return found[0], x.Resources[found[0]]
}

// at returns the value at a path of fields and indexes: A.B.0.C. If there is none, it returns nil.
func at(value any, path string) any {
	for step := range strings.SplitSeq(path, ".") {
		switch v := value.(type) {
		case map[string]any:
			value = v[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(v) {
				return nil
			}
			value = v[i]
		default:
			return nil
		}
	}
	return value
}

// expect compares the values at paths of a resource, as JSON.
func (r resource) expect(t *testing.T, id string, want map[string]any) {
	t.Helper()
	for path, value := range want {
		if got := asJSON(at(r.Properties, path)); got != asJSON(value) {
			t.Errorf("%s: %s is %s, want %s", id, path, got, asJSON(value))
		}
	}
}

func asJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(data)
}

// ref and arn return references to a resource and to its ARN, as templates have them.
func ref(id string) any { return map[string]any{"Ref": id} }

func arnOf(id string) any { return map[string]any{"Fn::GetAtt": []any{id, "Arn"}} }
