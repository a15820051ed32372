package infra

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// parametrized returns a template for archives in a bucket: for a configuration, or for any if it is
// empty.
func parametrized(t *testing.T, config string, context ...string) (*template, error) {
	t.Helper()
	values := map[string]any{"template": "true"}
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

// forAny returns the template for any configuration.
func forAny(t *testing.T, context ...string) *template {
	t.Helper()
	key := "template " + strings.Join(context, " ")
	if built[key] == nil {
		x, err := parametrized(t, "", context...)
		if err != nil {
			t.Fatal(err)
		}
		built[key] = x
	}
	return built[key]
}

func TestATemplateTakesFunctionsAndConfigurationFromParameters(t *testing.T) {
	x := forAny(t)
	want := []string{"AlarmTopic", "Architecture", "CodeBucket", "CodePrefix", "Config", "DestinationPolicy", "PageTopic"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(x.Parameters))); diff != "" {
		t.Errorf("parameters (-want +got)\n%s", diff)
	}
	for _, name := range []string{"CodeBucket", "Config"} {
		if got := x.Parameters[name].Default; got != nil {
			t.Errorf("%s has the default %v, and must be given", name, got)
		}
	}
	for _, name := range []string{"Ingest", "Process", "Publish"} {
		id, f := x.one(t, functionType, name)
		f.expect(t, id, map[string]any{
			"Code.S3Bucket": ref("CodeBucket"), "Architectures": []any{ref("Architecture")}, "Environment.Variables.ONCE_CONFIG": ref("Config"),
			"Code.S3Key": map[string]any{"Fn::Join": []any{"", []any{ref("CodePrefix"), "once-" + strings.ToLower(name) + "-", ref("Architecture"), ".zip"}}},
		})
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

func TestATemplateNeedsNoBootstrappedAccount(t *testing.T) {
	x := forAny(t)
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

func TestATemplateIsNamedByItsStack(t *testing.T) {
	name := ref("AWS::StackName")
	for context, kind := range map[string]string{"api=http": "AWS::ApiGatewayV2::Api", "api=rest": "AWS::ApiGateway::RestApi"} {
		x := forAny(t, context)
		id, api := x.one(t, kind, "")
		api.expect(t, id, map[string]any{"Name": map[string]any{"Fn::Join": []any{"", []any{name, "-Pipeline"}}}})
		id, board := x.one(t, "AWS::CloudWatch::Dashboard", "")
		board.expect(t, id, map[string]any{"DashboardName": map[string]any{"Fn::Join": []any{"-", []any{name, ref("AWS::Region")}}}})
		id, failing := x.one(t, alarmType, "HandlerFailing")
		failing.expect(t, id, map[string]any{"Namespace": name})
		id, f := x.one(t, functionType, "Process")
		f.expect(t, id, map[string]any{"Environment.Variables.ONCE_METRICS_NAMESPACE": name, "Tags.0.Value": name})
	}
}

func TestTheCommandLineFindsAStackOfATemplate(t *testing.T) {
	if diff := cmp.Diff(slices.Sorted(maps.Keys(synth(t).Outputs)), slices.Sorted(maps.Keys(forAny(t).Outputs))); diff != "" {
		t.Errorf("outputs (-stack for the CDK +template)\n%s", diff)
	}
}

func TestATemplateForAnyConfigurationSendsOnlyWithThePolicyOfItsParameter(t *testing.T) {
	x := forAny(t)
	for _, role := range []string{"IngestRole", "ProcessRole", "PublishRole"} {
		id, r := x.one(t, "AWS::IAM::Role", role)
		r.expect(t, id, map[string]any{"ManagedPolicyArns": []any{
			map[string]any{"Fn::If": []any{"HasDestinationPolicy", ref("DestinationPolicy"), ref("AWS::NoValue")}},
		}})
	}
	for _, s := range statements(x) {
		for _, action := range s.actions {
			if slices.Contains([]string{"sns:Publish", "events:PutEvents", "secretsmanager:GetSecretValue", "ssm:GetParameter"}, action) {
				t.Errorf("%s allows %s", s.where, action)
			}
		}
	}
	id, queue := x.queue(t, "QueuesIngress")
	queue.expect(t, id, map[string]any{"RedrivePolicy.maxReceiveCount": maxReceives})
}

func TestATemplateForAConfigurationHasItsTextPermissionsAndSources(t *testing.T) {
	const config = "streams: {orders: {destinations: [bus]}}\ndestinations: {bus: {eventbridge: default}}\ningress: {files: {stream: orders, from: s3, arns: [\"arn:aws:s3:::uploads\"]}}\n"
	x, err := parametrized(t, config)
	if err != nil {
		t.Fatal(err)
	}
	if got := x.Parameters["Config"].Default; got != config {
		t.Errorf("the default is %q", got)
	}
	if !slices.ContainsFunc(statements(x), func(s statement) bool { return slices.Contains(s.actions, "events:PutEvents") }) {
		t.Error("the functions may not send to the event bus")
	}
	x.all(t, queueType, 9)
	if strings.Contains(x.Parameters["Config"].Description, "must not name sources") {
		t.Error("the description is that of a template for any configuration")
	}
}

func TestATemplateNamesAConfigurationThatIsTooLongForAVariable(t *testing.T) {
	for _, c := range []struct {
		bytes int
		text  bool
	}{{maxInline, true}, {maxInline + 1, false}} {
		config := "streams: {orders: {}}\n"
		config += "#" + strings.Repeat("x", c.bytes-len(config)-2) + "\n"
		x, err := parametrized(t, config)
		if err != nil {
			t.Fatal(err)
		}
		want := configFile
		if c.text {
			want = config
		}
		if got := x.Parameters["Config"].Default; got != want {
			t.Errorf("%d bytes: the default is %q", c.bytes, got)
		}
	}
}

// The longest generated names are those of CloudFormation: a stack has up to 128 characters, a
// queue 80, a bucket 63. A table's is the name of the stack, its id and a suffix of 13.
func TestTheVariablesOfAFunctionFitBesideTheLongestConfiguration(t *testing.T) {
	const (
		stack  = 128
		queue  = len("https://sqs.ap-southeast-1.amazonaws.com/123456789012/") + 80
		bucket = 63
		roles  = 3*len("AROA12345678901234567") + 2
	)
	x, total := forAny(t), 0
	_, f := x.one(t, functionType, "Process")
	variables, _ := at(f.Properties, "Environment.Variables").(map[string]any)
	for name, value := range variables {
		total += len(name)
		switch {
		case name == "ONCE_CONFIG":
			total += x.Parameters["Config"].MaxLength
		case strings.HasSuffix(name, "_QUEUE_URL"):
			total += queue
		case strings.HasSuffix(name, "_TABLE"):
			total += stack + len(at(value, "Ref").(string)) + 14
		case name == "ONCE_BUCKET":
			total += bucket
		case name == "ONCE_METRICS_NAMESPACE":
			total += stack
		case name == "ONCE_TRUSTED_SENDERS":
			total += roles
		default:
			t.Errorf("how long is %s?", name)
		}
	}
	if total > 4096 {
		t.Errorf("the variables have up to %d bytes, and Lambda takes 4096", total)
	}
	t.Logf("up to %d bytes", total)
}

func TestTheParameterConfigTakesATextOrAPath(t *testing.T) {
	pattern := regexp.MustCompile(forAny(t).Parameters["Config"].AllowedPattern)
	for value, want := range map[string]bool{
		"streams: {orders: {}}\n": true, "streams:\n  orders: {}": true, "once.yaml": true, "conf/once.yml": true, "streams: {orders: {}}": false, "": false, "once.json": false,
	} {
		if got := pattern.MatchString(value); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
}

func TestAlarmsOfATemplateGoToTheTopicsOfItsParameters(t *testing.T) {
	x := forAny(t, "alarmTopic=arn:aws:sns:eu-central-1:123456789012:tickets")
	if got := x.Parameters["AlarmTopic"].Default; got != "arn:aws:sns:eu-central-1:123456789012:tickets" {
		t.Errorf("the default is %v", got)
	}
	all := map[string]any{"Fn::If": []any{"HasAlarmTopic", ref("AlarmTopic"), ref("AWS::NoValue")}}
	for name, want := range map[string]any{"KeyReuse": all, "HandlerFailing": map[string]any{"Fn::If": []any{"HasPageTopic", ref("PageTopic"), all}}} {
		id, alarm := x.one(t, alarmType, name)
		alarm.expect(t, id, map[string]any{"AlarmActions": []any{want}, "OKActions": []any{want}})
	}
	if x.warnings != 0 {
		t.Errorf("%d warnings about a missing topic", x.warnings)
	}
}

func TestTheFunctionsOfATemplateCantBeFolders(t *testing.T) {
	for _, setting := range []string{"assets", "ingestFunction", "processFunction", "publishFunction"} {
		if _, err := parametrized(t, "", setting+"=own"); err == nil || !strings.Contains(err.Error(), "context "+setting) || !strings.Contains(err.Error(), "CodeBucket") {
			t.Errorf("%s: %v", setting, err)
		}
	}
}
