package infra

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/interfaces/interfacesawscloudwatch"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// NewDashboard returns a dashboard of a pipeline: alarms, messages, waiting messages, dead letters,
// functions. alarms may be nil.
func NewDashboard(scope constructs.Construct, id string, p *Pipeline, alarms *Alarms) awscloudwatch.Dashboard {
	board := awscloudwatch.NewDashboard(scope, jsii.String(id), &awscloudwatch.DashboardProps{DashboardName: awscdk.Stack_Of(scope).StackName()})
	if alarms != nil {
		list := make([]interfacesawscloudwatch.IAlarmRef, len(alarms.All))
		for i, a := range alarms.All {
			list[i] = a
		}
		board.AddWidgets(awscloudwatch.NewAlarmStatusWidget(&awscloudwatch.AlarmStatusWidgetProps{Title: jsii.String("Alarms"), Alarms: &list, Width: jsii.Number(24)}))
	}
	var messages []awscloudwatch.IMetric
	for _, name := range []string{"Processed", "Duplicate", "Held", "Published", "Rejected", "KeyReuse", "Unknown", "DeadLettered", "Retried", "HandlerFailed", "Conflict", "Skipped"} {
		messages = append(messages, p.counted(name))
	}
	board.AddWidgets(graph("Messages", messages), graph("Longest gap and longest wait for a destination, seconds", []awscloudwatch.IMetric{p.longest("GapAge"), p.longest("PendingAge")}))
	var accepted []awscloudwatch.IMetric
	for _, name := range []string{"Accepted", "Replayed", "Refused", "Failed"} {
		accepted = append(accepted, p.counted(name))
	}
	board.AddWidgets(graph("Messages at the HTTP API", accepted),
		graph("Time to accept a message, seconds", []awscloudwatch.IMetric{labelled("p50", p.measured("AcceptTime", "p50")), labelled("p99", p.measured("AcceptTime", "p99"))}))
	var sessions []awscloudwatch.IMetric
	for _, name := range []string{"SessionStopped", "Takeover", "EndWaits", "UnreadLate"} {
		sessions = append(sessions, p.counted(name))
	}
	board.AddWidgets(graph("Sessions", sessions))
	board.AddWidgets(graph("Dead letters", deadLetters(p.Queues)), graph("Oldest message, seconds", oldest(p.Queues)))
	board.AddWidgets(ofFunctions(p)...)
	return board
}

func graph(title string, metrics []awscloudwatch.IMetric) awscloudwatch.IWidget {
	return awscloudwatch.NewGraphWidget(&awscloudwatch.GraphWidgetProps{Title: jsii.String(title), Left: &metrics, Width: jsii.Number(12)})
}

func deadLetters(q *Queues) (out []awscloudwatch.IMetric) {
	_, dead := q.all()
	for _, n := range dead {
		out = append(out, labelled(n.name, n.queue.MetricApproximateNumberOfMessagesVisible(byAWS("Maximum"))))
	}
	return out
}

func oldest(q *Queues) (out []awscloudwatch.IMetric) {
	work, _ := q.all()
	for _, n := range work {
		out = append(out, labelled(n.name, n.queue.MetricApproximateAgeOfOldestMessage(byAWS("Maximum"))))
	}
	return out
}

func ofFunctions(p *Pipeline) []awscloudwatch.IWidget {
	var trouble, duration []awscloudwatch.IMetric
	for _, f := range p.functions() {
		trouble = append(trouble, labelled(f.name+" errors", f.MetricErrors(byAWS("Sum"))), labelled(f.name+" throttles", f.MetricThrottles(byAWS("Sum"))))
		duration = append(duration, labelled(f.name, f.MetricDuration(byAWS("p99"))))
	}
	return []awscloudwatch.IWidget{graph("Errors and throttles of functions", trouble), graph("Duration of functions, p99, milliseconds", duration)}
}
