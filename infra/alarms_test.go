package infra

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// describe returns an alarm as one line: metric, dimensions other than the system, statistic,
// threshold.
func describe(r resource) string {
	var dimensions []string
	list, _ := r.Properties["Dimensions"].([]any)
	for _, d := range list {
		value := at(d, "Value")
		for _, path := range []string{"Fn::GetAtt.0", "Ref"} {
			if id, ok := at(value, path).(string); ok {
				value = strings.TrimPrefix(id[:len(id)-8], "Pipeline")
			}
		}
		dimensions = append(dimensions, fmt.Sprintf(" %v=%v", at(d, "Name"), value))
	}
	p := r.Properties
	return fmt.Sprintf("%v %v%s %v >= %v", p["Namespace"], p["MetricName"], strings.Join(dimensions, ""), p["Statistic"], p["Threshold"])
}

func TestEverySignOfALossRaisesAnAlarm(t *testing.T) {
	want := []string{
		"AWS/Events FailedInvocations RuleName=Sweep Sum >= 1",
		"AWS/Events FailedInvocations RuleName=SweepAll Sum >= 1",
		"AWS/Lambda Errors FunctionName=Ingest Sum >= 1",
		"AWS/Lambda Errors FunctionName=Process Sum >= 1",
		"AWS/Lambda Errors FunctionName=Publish Sum >= 1",
		"AWS/Lambda Throttles FunctionName=Ingest Sum >= 1",
		"AWS/Lambda Throttles FunctionName=Process Sum >= 1",
		"AWS/Lambda Throttles FunctionName=Publish Sum >= 1",
		"AWS/SQS ApproximateAgeOfOldestMessage QueueName=QueuesIngress Maximum >= 900",
		"AWS/SQS ApproximateAgeOfOldestMessage QueueName=QueuesIngressFifo Maximum >= 900",
		"AWS/SQS ApproximateAgeOfOldestMessage QueueName=QueuesPublish Maximum >= 1800",
		"AWS/SQS ApproximateAgeOfOldestMessage QueueName=QueuesPublishFifo Maximum >= 900",
		"AWS/SQS ApproximateNumberOfMessagesVisible QueueName=QueuesIngressDead Maximum >= 1",
		"AWS/SQS ApproximateNumberOfMessagesVisible QueueName=QueuesIngressFifoDead Maximum >= 1",
		"AWS/SQS ApproximateNumberOfMessagesVisible QueueName=QueuesPublishDead Maximum >= 1",
		"AWS/SQS ApproximateNumberOfMessagesVisible QueueName=QueuesPublishFifoDead Maximum >= 1",
		"Once DeadLettered Sum >= 1",
		"Once EndWaits Sum >= 1",
		"Once GapAge Maximum >= 900",
		"Once KeyReuse Sum >= 1",
		"Once PendingAge Maximum >= 900",
		"Once SessionStopped Sum >= 1",
		"Once Skipped Sum >= 1",
		"Once Takeover Sum >= 10",
		"Once Unknown Sum >= 1",
		"Once UnreadLate Sum >= 1",
	}
	x := synth(t)
	var got []string
	for _, id := range x.all(t, alarmType, len(want)) {
		r := x.Resources[id]
		got = append(got, describe(r))
		period := 300
		if r.Properties["MetricName"] == "UnreadLate" { // counted by the sweep of all groups
			period = 3600
		}
		r.expect(t, id, map[string]any{
			"ComparisonOperator": "GreaterThanOrEqualToThreshold", "EvaluationPeriods": 1, "TreatMissingData": "notBreaching", "Period": period,
		})
	}
	slices.Sort(got)
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

func TestThePageDescribesEveryAlarmAndNoOther(t *testing.T) {
	page, err := os.ReadFile("../docs/deploy.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Alarms\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var listed, made []string
	for row := range strings.Lines(section) {
		row, inTable := strings.CutPrefix(row, "| ")
		if !inTable {
			continue
		}
		first, _, _ := strings.Cut(row, " |")
		for _, m := range regexp.MustCompile("`([A-Za-z]+)`").FindAllStringSubmatch(first, -1) {
			listed = append(listed, m[1])
		}
	}
	for id, r := range synth(t).Resources {
		if r.Type == alarmType {
			made = append(made, strings.TrimPrefix(id[:len(id)-8], "Alarms"))
		}
	}
	slices.Sort(listed)
	slices.Sort(made)
	if diff := cmp.Diff(made, listed); diff != "" {
		t.Errorf("alarms (-template +page)\n%s", diff)
	}
}

func TestEveryMetricDocumentedWithAnAlarmHasOne(t *testing.T) {
	x := synth(t)
	alarms := map[string]bool{}
	for _, r := range x.Resources {
		if r.Type == alarmType && r.Properties["Namespace"] == "Once" {
			alarms[r.Properties["MetricName"].(string)] = true
		}
	}
	for name, alarm := range documented(t) {
		if alarms[name] != alarm {
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
		if own != 10 {
			t.Errorf("%d alarms look at %s, want 10", own, namespace)
		}
	}
}

func TestAlarmsGoToTheTopicOfTheSetting(t *testing.T) {
	const topic = "arn:aws:sns:eu-central-1:123456789012:pager"
	x := synth(t, "alarmTopic="+topic, "alarmMinutes=60")
	for _, id := range x.all(t, alarmType, 26) {
		x.Resources[id].expect(t, id, map[string]any{"AlarmActions": []string{topic}, "OKActions": []string{topic}})
		if metric := x.Resources[id].Properties["MetricName"]; metric == "PendingAge" || metric == "GapAge" {
			x.Resources[id].expect(t, id, map[string]any{"Threshold": 3600})
		}
	}
}

func TestTheDashboardShowsAlarmsAndEveryMetric(t *testing.T) {
	x := synth(t)
	_, board := x.one(t, "AWS::CloudWatch::Dashboard", "")
	body := asJSON(board.Properties["DashboardBody"])
	names := []string{"ApproximateNumberOfMessagesVisible", "ApproximateAgeOfOldestMessage", "Errors", "Throttles", "Duration"}
	for _, name := range slices.AppendSeq(names, maps.Keys(documented(t))) {
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
