package infra

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatchactions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/jsii-runtime-go"
	"github.com/google/go-cmp/cmp"
)

// describe returns an alarm as one line: severity, metrics, statistic, threshold, datapoints.
func describe(a *alarm, r resource) string {
	metric, sign, missing := a.metrics[0], ">=", ""
	if len(a.metrics) > 1 {
		metric = fmt.Sprintf("%s + … (%d)", metric, len(a.metrics))
	}
	if a.below {
		sign = "<"
	}
	if a.breaching {
		missing = " or missing"
	}
	return fmt.Sprintf("%s: %s: %s %s %s %v%s, %d of %d times %s", a.name, severityOf(r), metric, a.statistic, sign, a.threshold, missing, a.points, a.periods, a.period)
}

func severityOf(r resource) any {
	tags, _ := r.Properties["Tags"].([]any)
	for _, tag := range tags {
		if at(tag, "Key") == severityTag {
			return at(tag, "Value")
		}
	}
	return nil
}

func TestEverySignOfALossRaisesAnAlarm(t *testing.T) {
	want := []string{
		"ApiErrors: ticket: AWS/ApiGateway 5xx ApiId=HttpApi Sum >= 1, 1 of 1 times 5m0s",
		"Dead: ticket: AWS/SQS ApproximateNumberOfMessagesVisible QueueName=QueuesIngressDead Maximum >= 1, 1 of 1 times 5m0s",
		"DeadFifo: ticket: AWS/SQS ApproximateNumberOfMessagesVisible QueueName=QueuesIngressFifoDead Maximum >= 1, 1 of 1 times 5m0s",
		"DeadLettered: ticket: Once DeadLettered Sum >= 1, 1 of 1 times 5m0s",
		"DeadPublish: ticket: AWS/SQS ApproximateNumberOfMessagesVisible QueueName=QueuesPublishDead Maximum >= 1, 1 of 1 times 5m0s",
		"DeadPublishFifo: ticket: AWS/SQS ApproximateNumberOfMessagesVisible QueueName=QueuesPublishFifoDead Maximum >= 1, 1 of 1 times 5m0s",
		"EndWaits: ticket: Once EndWaits Sum >= 1, 1 of 1 times 5m0s",
		"Gap: ticket: Once GapAge Maximum >= 900, 1 of 1 times 5m0s",
		"GroupsErrors: ticket: AWS/DynamoDB SystemErrors Operation=GetItem TableName=TablesGroups + … (9) Sum >= 1, 2 of 3 times 5m0s",
		"HandlerFailing: page: Once HandlerFailed Sum >= 1, 2 of 3 times 1m0s",
		"IngestBusy: ticket: AWS/Lambda ConcurrentExecutions FunctionName=Ingest Maximum >= 800, 3 of 3 times 1m0s",
		"IngestErrors: page: AWS/Lambda Errors FunctionName=Ingest Sum >= 1, 1 of 1 times 5m0s",
		"IngestFailing: page: Once Failed Sum >= 1, 2 of 3 times 1m0s",
		"IngestSlow: ticket: Once AcceptTime p99 >= 3, 3 of 3 times 1m0s",
		"IngestThrottles: page: AWS/Lambda Throttles FunctionName=Ingest Sum >= 1, 1 of 1 times 5m0s",
		"IngressAge: page: AWS/SQS ApproximateAgeOfOldestMessage QueueName=QueuesIngress Maximum >= 900, 1 of 1 times 5m0s",
		"IngressFifoAge: page: AWS/SQS ApproximateAgeOfOldestMessage QueueName=QueuesIngressFifo Maximum >= 900, 1 of 1 times 5m0s",
		"KeyReuse: ticket: Once KeyReuse Sum >= 1, 1 of 1 times 5m0s",
		"Pending: page: Once PendingAge Maximum >= 900, 1 of 1 times 5m0s",
		"ProcessBusy: ticket: AWS/Lambda ConcurrentExecutions FunctionName=Process Maximum >= 80, 3 of 3 times 1m0s",
		"ProcessErrors: page: AWS/Lambda Errors FunctionName=Process Sum >= 1, 1 of 1 times 5m0s",
		"ProcessThrottles: page: AWS/Lambda Throttles FunctionName=Process Sum >= 1, 1 of 1 times 5m0s",
		"PublishAge: page: AWS/SQS ApproximateAgeOfOldestMessage QueueName=QueuesPublish Maximum >= 1800, 1 of 1 times 5m0s",
		"PublishBusy: ticket: AWS/Lambda ConcurrentExecutions FunctionName=Publish Maximum >= 80, 3 of 3 times 1m0s",
		"PublishErrors: page: AWS/Lambda Errors FunctionName=Publish Sum >= 1, 1 of 1 times 5m0s",
		"PublishFifoAge: page: AWS/SQS ApproximateAgeOfOldestMessage QueueName=QueuesPublishFifo Maximum >= 900, 1 of 1 times 5m0s",
		"PublishThrottles: page: AWS/Lambda Throttles FunctionName=Publish Sum >= 1, 1 of 1 times 5m0s",
		"Retrying: ticket: Once Retried Sum >= 1, 3 of 3 times 5m0s",
		"SessionStopped: page: Once SessionStopped Sum >= 1, 1 of 1 times 5m0s",
		"Skipped: ticket: Once Skipped Sum >= 1, 1 of 1 times 5m0s",
		"SweepAllMissed: ticket: AWS/Events FailedInvocations RuleName=SweepAll Sum >= 1, 1 of 1 times 5m0s",
		"SweepAllSilent: ticket: AWS/Events Invocations RuleName=SweepAll Sum < 1 or missing, 3 of 3 times 1h0m0s",
		"SweepMissed: ticket: AWS/Events FailedInvocations RuleName=Sweep Sum >= 1, 1 of 1 times 5m0s",
		"SweepSilent: ticket: AWS/Events Invocations RuleName=Sweep Sum < 1 or missing, 3 of 3 times 1m0s",
		"TablesThrottled: ticket: AWS/DynamoDB ReadThrottleEvents TableName=TablesGroups + … (6) Sum >= 1, 2 of 3 times 1m0s",
		"Takeover: ticket: Once Takeover Sum >= 10, 1 of 1 times 5m0s",
		"TokensErrors: ticket: AWS/DynamoDB SystemErrors Operation=GetItem TableName=TablesTokens + … (9) Sum >= 1, 2 of 3 times 5m0s",
		"Unknown: ticket: Once Unknown Sum >= 1, 1 of 1 times 5m0s",
		"UnreadLate: page: Once UnreadLate Sum >= 1, 1 of 1 times 1h0m0s",
	}
	x := synth(t)
	ids := x.all(t, alarmType, len(want))
	var got []string
	for i, a := range x.alarms(t) {
		got = append(got, describe(&a, x.Resources[ids[i]]))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("alarms (-want +got)\n%s", diff)
	}
}

// documented returns the metrics of the page on observability, and whether the page demands an
// alarm for each.
func documented(t *testing.T) map[string]bool {
	t.Helper()
	page, err := os.ReadFile("../docs/observability.md")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([A-Z][A-Za-z]+)` \\|.*\\| ([^|]*)\\|$").FindAllStringSubmatch(string(page), -1) {
		out[m[1]] = m[2] != ""
	}
	if len(out) < 10 {
		t.Fatalf("found only %v", out)
	}
	return out
}

// paragraphs returns the text below each heading of the section on alarms, by anchor.
func paragraphs(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(data), "\n## Alarms\n")
	section, _, _ = strings.Cut(section, "\n## ")
	out := map[string]string{}
	for _, part := range strings.Split(section, "\n### ")[1:] {
		heading, text, _ := strings.Cut(part, "\n")
		out[strings.ToLower(heading)] = text
	}
	return out
}

func TestEachAlarmNamesItsSeverityAndLinksToItsParagraph(t *testing.T) {
	pages, x := paragraphs(t), synth(t)
	used := map[string]bool{}
	for _, id := range x.all(t, alarmType, 39) {
		name := strings.TrimPrefix(id[:len(id)-8], "Alarms")
		text, _ := x.Resources[id].Properties["AlarmDescription"].(string)
		m := regexp.MustCompile(`^once \[(page|ticket)\]: .+ https://github\.com/effectively-once/once/blob/main/docs/operations\.md#([a-z]+)$`).FindStringSubmatch(text)
		if m == nil || m[1] != severityOf(x.Resources[id]) {
			t.Errorf("%s: severity %v, description %q", name, severityOf(x.Resources[id]), text)
			continue
		}
		used[m[2]] = true
		switch paragraph, there := pages[m[2]]; {
		case !there:
			t.Errorf("%s: the page has no heading #%s", name, m[2])
		case !strings.Contains(paragraph, "`"+name+"`"):
			t.Errorf("%s: the paragraph #%s does not name it", name, m[2])
		case !strings.Contains(paragraph, "("+m[1]+")"):
			t.Errorf("%s: the paragraph #%s does not say that it is a %s", name, m[2], m[1])
		}
	}
	for anchor := range pages {
		if !used[anchor] {
			t.Errorf("no alarm links to the paragraph #%s", anchor)
		}
	}
}

func TestEachAlarmCanBeTurnedOffByName(t *testing.T) {
	x := synth(t, "alarmsOff=Takeover,TokensErrors,SweepSilent")
	if n := len(x.all(t, alarmType, 36)); n == 0 {
		t.Error("no alarms")
	}
	for _, a := range x.alarms(t) {
		if a.name == "Takeover" || a.name == "TokensErrors" || a.name == "SweepSilent" {
			t.Errorf("%s is there", a.name)
		}
	}
	// These have no such alarms, and the setting may stay.
	synth(t, "alarmsOff=SweepSilent", "paused=true")
	synth(t, "alarmsOff=TokensErrors", "emulator=true")
	_, err := build(t, "alarmsOff=takeover,Gap")
	for _, part := range []string{`"takeover"`, "ApiErrors, Dead, ", "HandlerFailing", "Takeover", "UnreadLate"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v does not have %s", err, part)
		}
	}
	if err != nil && strings.Contains(err.Error(), `"Gap"`) {
		t.Errorf("error %v refuses an alarm that exists", err)
	}
}

func TestAPausedSystemHasNoAlarmOnMissingSweeps(t *testing.T) {
	for _, a := range synth(t, "paused=true").alarms(t) {
		if a.breaching {
			t.Errorf("%s would be on", a.name)
		}
	}
}

func TestAnEmulatorGetsNoMetricMath(t *testing.T) {
	for _, id := range synth(t, "emulator=true").all(t, alarmType, 36) {
		if synth(t, "emulator=true").Resources[id].Properties["Metrics"] != nil {
			t.Errorf("%s uses metric math", id)
		}
	}
}

func TestAMissingAlarmTopicIsAWarningAtSynth(t *testing.T) {
	for context, want := range map[string]int{"emulator=false": 1, "alarmTopic=arn:aws:sns:eu-central-1:123456789012:pager": 0, "emulator=true": 0} {
		if got := synth(t, context).warnings; got != want {
			t.Errorf("%s: %d warnings, want %d", context, got, want)
		}
	}
}

func TestTheDashboardOfEachRegionHasItsOwnName(t *testing.T) {
	id, board := synth(t).one(t, "AWS::CloudWatch::Dashboard", "")
	board.expect(t, id, map[string]any{"DashboardName": map[string]any{"Fn::Join": []any{"-", []any{"Once", ref("AWS::Region")}}}})
}

// ofServers are the metrics of one machine: functions deny no requests, and drop no dead letters.
var ofServers = []string{"Denied", "DeadLetterDropped"}

func TestEveryMetricDocumentedWithAnAlarmHasOne(t *testing.T) {
	x := synth(t)
	alarms := map[string]bool{}
	for _, r := range x.Resources {
		if r.Type == alarmType && r.Properties["Namespace"] == "Once" {
			alarms[r.Properties["MetricName"].(string)] = true
		}
	}
	for name, alarm := range documented(t) {
		if alarms[name] != alarm && !slices.Contains(ofServers, name) {
			t.Errorf("%s: alarm %v, documented %v", name, alarms[name], alarm)
		}
	}
}

func TestTheMetricsOfAStackAreItsOwn(t *testing.T) {
	for namespace, context := range map[string][]string{"Shop": {"stack=Shop"}, "Team/Shop": {"stack=Shop", "metricsNamespace=Team/Shop"}} {
		x := synth(t, context...)
		id, f := x.one(t, functionType, "Process")
		f.expect(t, id, map[string]any{"Environment.Variables.ONCE_METRICS_NAMESPACE": namespace})
		own := 0
		for _, r := range x.Resources {
			if r.Type == alarmType && r.Properties["Namespace"] == namespace {
				own++
			}
		}
		if own != 14 {
			t.Errorf("%d alarms look at %s, want 14", own, namespace)
		}
	}
}

func TestTwoPipelinesOfOneAppCountApart(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"ingest", "process", "publish"} {
		write(t, filepath.Join(folder, name, "bootstrap"), name)
	}
	stack := awscdk.NewStack(NewApp(), jsii.String("Shop"), nil)
	for _, id := range []string{"Orders", "Payments"} {
		p, err := NewPipeline(stack, id, &PipelineProps{Config: "streams: {orders: {}}", Assets: folder})
		if err != nil {
			t.Fatal(err)
		}
		if want := "Shop/" + id; p.MetricsNamespace != want {
			t.Errorf("the namespace is %s, want %s", p.MetricsNamespace, want)
		}
	}
}

func TestAlarmsGoToTheTopicOfTheSetting(t *testing.T) {
	const topic = "arn:aws:sns:eu-central-1:123456789012:pager"
	x := synth(t, "alarmTopic="+topic, "alarmMinutes=60")
	for _, id := range x.all(t, alarmType, 39) {
		x.Resources[id].expect(t, id, map[string]any{"AlarmActions": []string{topic}, "OKActions": []string{topic}})
		if metric := x.Resources[id].Properties["MetricName"]; metric == "PendingAge" || metric == "GapAge" {
			x.Resources[id].expect(t, id, map[string]any{"Threshold": 3600})
		}
	}
}

func TestPagesCanGoToATopicOfTheirOwn(t *testing.T) {
	const tickets, pages = "arn:aws:sns:eu-central-1:123456789012:tickets", "arn:aws:sns:eu-central-1:123456789012:pages"
	x := synth(t, "alarmTopic="+tickets, "pageTopic="+pages)
	counts := map[any]int{}
	for _, id := range x.all(t, alarmType, 39) {
		want := map[any]string{"page": pages, "ticket": tickets}[severityOf(x.Resources[id])]
		x.Resources[id].expect(t, id, map[string]any{"AlarmActions": []string{want}, "OKActions": []string{want}})
		counts[want]++
	}
	if counts[tickets] == 0 || counts[pages] == 0 {
		t.Errorf("alarms by topic: %v", counts)
	}
}

func TestAlarmsTakeActionsOfEachKindBySeverity(t *testing.T) {
	act := func(stack awscdk.Stack, id string) awscloudwatch.IAlarmAction {
		arn := jsii.String("arn:aws:lambda:eu-central-1:123456789012:function:" + id)
		return awscloudwatchactions.NewLambdaAction(awslambda.Function_FromFunctionArn(stack, jsii.String(id), arn), nil)
	}
	for name, c := range map[string]struct {
		props        func(awscdk.Stack) AlarmsProps
		ticket, page []string
		end          any
	}{
		"by severity": {func(s awscdk.Stack) AlarmsProps {
			return AlarmsProps{Actions: []awscloudwatch.IAlarmAction{act(s, "note")}, PageActions: []awscloudwatch.IAlarmAction{act(s, "wake")}, OKActions: []awscloudwatch.IAlarmAction{act(s, "calm")}}
		}, []string{"note"}, []string{"wake"}, "calm"},
		"the same for all": {func(s awscdk.Stack) AlarmsProps {
			return AlarmsProps{Actions: []awscloudwatch.IAlarmAction{act(s, "note")}}
		}, []string{"note"}, []string{"note"}, nil},
		"none for pages, beside a topic": {func(s awscdk.Stack) AlarmsProps {
			topic := awssns.Topic_FromTopicArn(s, jsii.String("Topic"), jsii.String("arn:aws:sns:eu-central-1:123456789012:function:news"))
			return AlarmsProps{Topic: topic, Actions: []awscloudwatch.IAlarmAction{act(s, "note")}, PageActions: []awscloudwatch.IAlarmAction{}}
		}, []string{"news", "note"}, []string{"news"}, "news"},
	} {
		stack := awscdk.NewStack(NewApp(), jsii.String("Shop"), nil)
		props := c.props(stack)
		alarms, err := NewAlarms(stack, "Alarms", pipelineIn(t, stack, "Orders", PipelineProps{Config: "streams: {orders: {}}"}), &props)
		if err != nil {
			t.Fatal(err)
		}
		x := templateOf(t, stack)
		if x.warnings > 0 {
			t.Errorf("%s: %d warnings", name, x.warnings)
		}
		for _, id := range x.all(t, alarmType, len(alarms.All)) {
			want := map[any][]string{"ticket": c.ticket, "page": c.page}[severityOf(x.Resources[id])]
			var got []string
			list, _ := x.Resources[id].Properties["AlarmActions"].([]any)
			for _, arn := range list {
				got = append(got, lastPart(arn))
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s: %s (-want +got):\n%s", name, id, d)
			}
			var end any
			if list, ok := x.Resources[id].Properties["OKActions"].([]any); ok {
				end = lastPart(list[0])
			}
			if end != c.end {
				t.Errorf("%s: %s ends with %v, not %v", name, id, end, c.end)
			}
		}
	}
}

// lastPart returns the text after the last colon of an ARN.
func lastPart(arn any) string {
	text := fmt.Sprint(arn)
	return text[strings.LastIndexByte(text, ':')+1:]
}

func TestThrottledReadsOfTheIndexRaiseAnAlarm(t *testing.T) {
	_, r := synth(t).one(t, alarmType, "TablesThrottled")
	var found bool
	metrics, _ := r.Properties["Metrics"].([]any)
	for _, m := range metrics {
		text := asJSON(at(m, "MetricStat.Metric"))
		found = found || strings.Contains(text, `"ReadThrottleEvents"`) && strings.Contains(text, `"GlobalSecondaryIndexName"`) && strings.Contains(text, `"waiting"`)
	}
	if !found {
		t.Errorf("no such metric in %s", asJSON(metrics))
	}
}

func TestTheDashboardShowsAlarmsAndEveryMetric(t *testing.T) {
	x := synth(t)
	_, board := x.one(t, "AWS::CloudWatch::Dashboard", "")
	body := asJSON(board.Properties["DashboardBody"])
	names := []string{"ApproximateNumberOfMessagesVisible", "ApproximateAgeOfOldestMessage", "Errors", "Throttles", "Duration", "5xx", "4xx", "Count", "Latency", "WriteThrottleEvents"}
	for _, name := range slices.AppendSeq(names, maps.Keys(documented(t))) {
		if slices.Contains(ofServers, name) {
			continue
		}
		if !strings.Contains(body, `\"`+name+`\"`) {
			t.Errorf("the dashboard has no %s", name)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(x.Resources)) {
		if x.Resources[id].Type == alarmType && !strings.Contains(body, id) {
			t.Errorf("the dashboard does not show %s", id)
		}
	}
}
