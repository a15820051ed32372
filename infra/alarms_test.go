package infra

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// alarm describes an alarm in one line: metric, dimensions other than the system, statistic, threshold.
func describe(r resource) string {
	var dimensions []string
	list, _ := r.Properties["Dimensions"].([]any)
	for _, d := range list {
		if at(d, "Name") == "system" {
			continue
		}
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

func TestEverySignOfALossAlarms(t *testing.T) {
	want := []string{
		"AWS/Events FailedInvocations RuleName=Sweep Sum >= 1",
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
		"Once gap Maximum >= 900",
		"Once pending Maximum >= 900",
		"Once rejected reason=key-reuse Sum >= 1",
		"Once rejected reason=unknown Sum >= 1",
	}
	x := synth(t)
	var got []string
	for _, id := range x.all(t, alarmType, len(want)) {
		r := x.Resources[id]
		got = append(got, describe(r))
		r.expect(t, id, map[string]any{
			"ComparisonOperator": "GreaterThanOrEqualToThreshold", "EvaluationPeriods": 1, "TreatMissingData": "notBreaching", "Period": 300,
		})
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("alarms (-want +got)\n%s", diff)
	}
}

func TestTheMetricsOfASystemAreItsOwn(t *testing.T) {
	x := synth(t, "stack=Shop")
	for id, r := range x.Resources {
		if r.Type == alarmType && r.Properties["Namespace"] == "Once" && !strings.Contains(asJSON(r.Properties["Dimensions"]), `{"Name":"system","Value":"Shop"}`) {
			t.Errorf("%s is of every system", id)
		}
	}
	id, f := x.one(t, functionType, "Process")
	f.expect(t, id, map[string]any{"Environment.Variables.ONCE_SYSTEM": "Shop"})
}

func TestAlarmsGoToTheTopicOfTheSetting(t *testing.T) {
	const topic = "arn:aws:sns:eu-central-1:123456789012:pager"
	x := synth(t, "alarmTopic="+topic, "alarmMinutes=60")
	for _, id := range x.all(t, alarmType, 19) {
		x.Resources[id].expect(t, id, map[string]any{"AlarmActions": []string{topic}, "OKActions": []string{topic}})
		if metric := x.Resources[id].Properties["MetricName"]; metric == "pending" || metric == "gap" {
			x.Resources[id].expect(t, id, map[string]any{"Threshold": 3600})
		}
	}
}

func TestTheDashboardShowsAlarmsAndEveryMetric(t *testing.T) {
	x := synth(t)
	_, board := x.one(t, "AWS::CloudWatch::Dashboard", "")
	body := asJSON(board.Properties["DashboardBody"])
	for _, name := range []string{
		"processed", "duplicate", "held", "published", "rejected", "retried", "conflict", "skipped", "gap", "pending", "ApproximateNumberOfMessagesVisible",
		"ApproximateAgeOfOldestMessage", "Errors", "Throttles", "Duration",
	} {
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
