package config_test

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/invopop/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/effectively-once/once/internal/config"
)

const schemaFile = "../../schema/once.schema.json"

// TestTheSchemaIsGeneratedFromTheTypes keeps schema/once.schema.json, which editors read, equal to
// the Go types; -update writes it.
func TestTheSchemaIsGeneratedFromTheTypes(t *testing.T) {
	data, err := json.MarshalIndent(generate(t), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	data = append(data, '\n')
	if *update {
		if err := os.WriteFile(schemaFile, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	stored, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(stored), string(data)); d != "" {
		t.Errorf("run go test ./internal/config -update (-stored +types)\n%s", d)
	}
}

const namePattern = `^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`

func generate(t *testing.T) *jsonschema.Schema {
	t.Helper()
	r := &jsonschema.Reflector{Anonymous: true, ExpandedStruct: true, Mapper: units}
	s := r.Reflect(&config.Config{})
	s.ID = "https://github.com/effectively-once/once/blob/main/schema/once.schema.json"
	s.Title = "once.yaml"
	s.Description = "Streams and destinations of a once system. The rules between fields are checked by once check."
	s.Required = []string{"streams"}
	for _, name := range []string{"streams", "destinations", "handlers", "ingress", "schedules"} {
		p, ok := s.Properties.Get(name)
		if !ok {
			t.Fatalf("no property %s", name)
		}
		p.PropertyNames = &jsonschema.Schema{Pattern: namePattern}
	}
	streams, _ := s.Properties.Get("streams")
	one := uint64(1)
	streams.MinProperties = &one
	d := s.Definitions["Destination"]
	for _, kind := range []string{"file", "webhook", "sqs", "sns", "eventbridge", "stream", "once"} {
		if _, ok := d.Properties.Get(kind); !ok {
			t.Fatalf("no kind %s", kind)
		}
		only := &jsonschema.Schema{Required: []string{kind}}
		if kind == "stream" { // of this system: the kind once has a stream too
			only.Not = &jsonschema.Schema{Required: []string{"once"}}
		}
		d.OneOf = append(d.OneOf, only)
	}
	h := s.Definitions["Handler"]
	for _, kind := range []string{"url", "lambda", "exec"} {
		h.OneOf = append(h.OneOf, &jsonschema.Schema{Required: []string{kind}})
	}
	require := func(names ...string) (all []*jsonschema.Schema) {
		for _, name := range names {
			all = append(all, &jsonschema.Schema{Required: []string{name}})
		}
		return all
	}
	h.OneOf = append(h.OneOf, &jsonschema.Schema{ // in Go
		AnyOf: require("timeout", "concurrency"), Not: &jsonschema.Schema{AnyOf: require("url", "lambda", "exec", "batch")},
	})
	h.DependentRequired = map[string][]string{"secret": {"url"}}
	d.DependentRequired = map[string][]string{"secret": {"webhook"}, "once": {"stream"}, "group": {"once"}, "auth": {"once"}, "header": {"auth"}, "relay": {"once"}}
	auth, _ := d.Properties.Get("auth")
	auth.Pattern = `^(iam|(env|file|secretsmanager|ssm):.+)$`
	retain, _ := s.Definitions["State"].Properties.Get("retain")
	retain.Pattern = "^forever$|" + retain.Pattern
	names, _ := s.Definitions["Stream"].Properties.Get("destinations")
	names.Items = &jsonschema.Schema{Type: "string", MinLength: &one}
	for of, field := range map[string]string{"Auth": "keys", "Admin": "key"} { // on this machine only
		key, _ := s.Definitions[of].Properties.Get(field)
		key.Pattern = `^(env|file):.+$`
	}
	s.Definitions["Auth"].MinProperties = &one
	roles, _ := s.Definitions["Auth"].Properties.Get("roles")
	roles.PropertyNames = &jsonschema.Schema{Pattern: `^[!-~]{1,200}$`}
	roles.AdditionalProperties.Items.Pattern = `^(send|read|consume|operate)(:[A-Za-z0-9*][A-Za-z0-9._*-]{0,63})?$`
	hosts, _ := s.Definitions["Server"].Properties.Get("hosts")
	hosts.Items = &jsonschema.Schema{Type: "string", MinLength: &one}
	origins, _ := s.Definitions["CORS"].Properties.Get("origins")
	origins.Items = &jsonschema.Schema{Type: "string", Pattern: "^https?://[^/*]+$"}
	arns, _ := s.Definitions["Ingress"].Properties.Get("arns")
	arns.Items = &jsonschema.Schema{Type: "string", Pattern: "^arn:"}
	return s
}

// units describes the types that are written as text.
func units(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[config.Duration]():
		return &jsonschema.Schema{Type: "string", Pattern: `^([0-9]+d)?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))*$`, Examples: []any{"30s", "24h", "15d"}}
	case reflect.TypeFor[config.Size]():
		return &jsonschema.Schema{
			OneOf:    []*jsonschema.Schema{{Type: "string", Pattern: `^[0-9]+ ?(B|KB|MB|GB|KiB|MiB|GiB)?$`}, {Type: "integer", Minimum: "1"}},
			Examples: []any{"8MB", "8MiB"},
		}
	case reflect.TypeFor[config.Sender]():
		return &jsonschema.Schema{
			OneOf:    []*jsonschema.Schema{{Type: "string", Pattern: `^(eventbridge|s3|sns|scheduler|pipes|[0-9]{12})$`}, {Type: "integer", Minimum: "100000000000", Maximum: "999999999999"}},
			Examples: []any{"eventbridge", "s3", "sns", "scheduler", "pipes"},
		}
	case reflect.TypeFor[config.Paths]():
		path := &jsonschema.Schema{Type: "string", Pattern: `^\$`}
		one := uint64(1)
		return &jsonschema.Schema{OneOf: []*jsonschema.Schema{path, {Type: "array", Items: path, MinItems: &one, UniqueItems: true}}, Examples: []any{"$.detail.order"}}
	case reflect.TypeFor[config.Secret]():
		return &jsonschema.Schema{Type: "string", Pattern: `^(env|file|secretsmanager|ssm):.+$`, Examples: []any{"env:SHOP_WEBHOOK_SECRET"}}
	}
	return nil
}

func compileSchema(t *testing.T) *validator.Schema {
	t.Helper()
	data, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := validator.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	c := validator.NewCompiler()
	if err := c.AddResource("once.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("once.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// schemaRefuses reads YAML as an editor does, and reports whether it is not YAML or breaks the
// schema.
func schemaRefuses(t *testing.T, schema *validator.Schema, document string) bool {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(document))
	if err != nil {
		return true
	}
	value, err := validator.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return true
	}
	return schema.Validate(value) != nil
}
