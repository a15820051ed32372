package infra

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// forConstruct returns the template that the construct of packaging/construct includes, and its
// metadata for the construct.
func forConstruct(t *testing.T, config string, context ...string) (*template, described) {
	t.Helper()
	x, err := included(t, config, context...)
	if err != nil {
		t.Fatal(err)
	}
	var y struct{ Metadata struct{ Once described } }
	if err := json.Unmarshal([]byte(x.text), &y); err != nil {
		t.Fatal(err)
	}
	return x, y.Metadata.Once
}

// included returns the template for a configuration, or for any if it is empty.
func included(t *testing.T, config string, context ...string) (*template, error) {
	t.Helper()
	values := map[string]any{"construct": "true"}
	if config != "" {
		path := filepath.Join(t.TempDir(), "some.yaml")
		write(t, path, config)
		values["config"] = path
	}
	for _, item := range context {
		name, value, _ := strings.Cut(item, "=")
		values[name] = value
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

// described is what the construct reads.
type described struct {
	Resources                  map[string]string
	Config                     string
	KeyActions, NetworkActions []string
}

func TestATemplateForTheConstructNamesTheResourcesThatItSets(t *testing.T) {
	const sources = "streams: {orders: {}}\ningress: {shop-files: {stream: orders, from: s3}}\n"
	for api, kinds := range map[string][2]string{
		"http": {"AWS::ApiGatewayV2::Api", "AWS::ApiGatewayV2::Stage"}, "rest": {"AWS::ApiGateway::RestApi", "AWS::ApiGateway::Stage"},
	} {
		x, d := forConstruct(t, sources, "api="+api)
		types := map[string]string{
			"Ingest": functionType, "Process": functionType, "Publish": functionType, "Groups": tableType, "Tokens": tableType, "Bucket": "AWS::S3::Bucket",
			"IngestRole": "AWS::IAM::Role", "ProcessRole": "AWS::IAM::Role", "PublishRole": "AWS::IAM::Role", "Api": kinds[0], "Stage": kinds[1],
		}
		for _, queue := range []string{"Ingress", "IngressFifo", "IngressShopFiles", "Publish", "PublishFifo", "Dead", "DeadFifo", "DeadPublish", "DeadPublishFifo"} {
			types[queue+"Queue"] = queueType
		}
		got := map[string]string{}
		for name, id := range d.Resources {
			got[name] = x.Resources[id].Type
		}
		if diff := cmp.Diff(types, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", api, diff)
		}
		x.all(t, tableType, 2)
		if !slices.Equal(d.KeyActions, keyUse) || !slices.Equal(d.NetworkActions, networkUse) || d.Config != sources {
			t.Errorf("%+v", d)
		}
	}
}

func TestATemplateForTheConstructHasOnlyParametersOfTexts(t *testing.T) {
	for want, context := range map[string][]string{
		"MetricsNamespace": nil,
		"CorsOrigins JwtAudience JwtIssuer MetricsNamespace": {"corsOrigins=https://a.example", "auth=jwt", "jwtIssuer=https://id.example", "jwtAudience=shop,till"},
		"MetricsNamespace UserPool":                          {"api=rest", "auth=jwt", "userPool=arn:aws:cognito-idp:eu-central-1:123456789012:userpool/pool"},
	} {
		x, d := forConstruct(t, "", context...)
		if got := strings.Join(slices.Sorted(maps.Keys(x.Parameters)), " "); got != want {
			t.Errorf("the parameters are %s, want %s", got, want)
		}
		if len(x.Conditions) != 0 || d.Config != "" || x.warnings != 0 {
			t.Errorf("%v: conditions %v, configuration %q, %d warnings", context, x.Conditions, d.Config, x.warnings)
		}
		for name, value := range map[string]any{"JwtAudience": "shop,till", "JwtIssuer": "https://id.example", "CorsOrigins": "https://a.example"} {
			if p, ok := x.Parameters[name]; ok && p.Default != value {
				t.Errorf("%s has the default %v", name, p.Default)
			}
		}
	}
}

func TestATemplateForTheConstructTakesExistingTables(t *testing.T) {
	x, d := forConstruct(t, "", "groupsTable=groups", "tokensTable=tokens")
	x.all(t, tableType, 0)
	if d.Resources["Groups"] != "" || x.Outputs["GroupsTable"].Value != "groups" {
		t.Errorf("%v, %v", d.Resources, x.Outputs["GroupsTable"])
	}
}

func TestATemplateForTheConstructKeepsTheDataIfTheStackIsDeleted(t *testing.T) {
	x, _ := forConstruct(t, "")
	for _, id := range append(x.all(t, tableType, 2), x.all(t, queueType, 8)...) {
		if r := x.Resources[id]; r.DeletionPolicy != "Retain" || r.UpdateReplacePolicy != "Retain" {
			t.Errorf("%s: %s", id, r.DeletionPolicy)
		}
	}
}

func TestTheArchivesHaveTheNamesOfTheTemplate(t *testing.T) {
	packed := source(t, "../packaging/archives")
	for _, part := range []string{`"once-" + function + "-" + architecture.aws + ".zip"`, `{"amd64", "x86_64"}`, `{"arm64", "arm64"}`} {
		if !strings.Contains(packed, part) {
			t.Errorf("make archives has other names: no %s", part)
		}
	}
}

func TestATemplateForTheConstructNeedsNoBootstrappedAccount(t *testing.T) {
	x, _ := forConstruct(t, "")
	for _, of := range []string{"cdk-hnb659fds", "AssetParameters", "BootstrapVersion", "cdk-bootstrap", "cdk.out"} {
		if strings.Contains(x.text, of) {
			t.Errorf("the template contains %s", of)
		}
	}
	if len(x.Rules) != 0 {
		t.Errorf("it has rules: %v", x.Rules)
	}
	if usual := synth(t).text; !strings.Contains(usual, "cdk-hnb659fds") || !strings.Contains(usual, "BootstrapVersion") {
		t.Error("a stack for the CDK does not contain them either: look for other words")
	}
}

func TestATemplateForTheConstructIsNamedByItsStack(t *testing.T) {
	name := ref("AWS::StackName")
	for context, kind := range map[string]string{"api=http": "AWS::ApiGatewayV2::Api", "api=rest": "AWS::ApiGateway::RestApi"} {
		x, _ := forConstruct(t, "", context)
		id, api := x.one(t, kind, "")
		api.expect(t, id, map[string]any{"Name": map[string]any{"Fn::Join": []any{"", []any{name, "-Pipeline"}}}})
	}
}

func TestATemplateForTheConstructHasThePermissionsAndSourcesOfItsConfiguration(t *testing.T) {
	const config = "streams: {orders: {destinations: [bus]}}\ndestinations: {bus: {eventbridge: default}}\ningress: {files: {stream: orders, from: s3, arns: [\"arn:aws:s3:::uploads\"]}}\n"
	puts := func(x *template) bool {
		return slices.ContainsFunc(statements(x), func(s statement) bool { return slices.Contains(s.actions, "events:PutEvents") })
	}
	x, _ := forConstruct(t, config)
	if !puts(x) {
		t.Error("the functions may not send to the event bus")
	}
	x.all(t, queueType, 9)
	if x, _ := forConstruct(t, ""); puts(x) {
		t.Error("a template for any configuration may send to the event bus")
	}
}

func TestTheFunctionsOfTheConstructCantBeFolders(t *testing.T) {
	for _, setting := range []string{"assets", "ingestFunction", "processFunction", "publishFunction"} {
		if _, err := included(t, "", setting+"=own"); err == nil || !strings.Contains(err.Error(), "context "+setting) {
			t.Errorf("%s: %v", setting, err)
		}
	}
}
