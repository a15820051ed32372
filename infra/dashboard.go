package infra

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/interfaces/interfacesawscloudwatch"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// NewDashboard returns a dashboard of a pipeline: alarms, the API, messages, waiting messages, dead
// letters, functions, tables. alarms may be nil. Its name has the region, because the names of
// dashboards are those of the whole account.
func NewDashboard(scope constructs.Construct, id string, p *Pipeline, alarms *Alarms) awscloudwatch.Dashboard {
	board := awscloudwatch.NewDashboard(scope, jsii.String(id), &awscloudwatch.DashboardProps{
		DashboardName: dashboardName(p),
	})
	if alarms != nil {
		list := make([]interfacesawscloudwatch.IAlarmRef, len(alarms.All))
		for i, a := range alarms.All {
			list[i] = a
		}
		board.AddWidgets(awscloudwatch.NewAlarmStatusWidget(&awscloudwatch.AlarmStatusWidgetProps{Title: jsii.String("Alarms"), Alarms: &list, Width: jsii.Number(24)}))
	}
	board.AddWidgets(ofAPI(p)...)
	var messages []awscloudwatch.IMetric
	for _, name := range []string{"Processed", "Duplicate", "Held", "Published", "Rejected", "KeyReuse", "Unknown", "DeadLettered", "Retried", "HandlerFailed", "Conflict", "Skipped"} {
		messages = append(messages, p.counted(name))
	}
	board.AddWidgets(graph("Messages", messages), graph("Longest gap and longest wait for a destination, seconds", []awscloudwatch.IMetric{p.longest("GapAge"), p.longest("PendingAge")}))
	var sessions []awscloudwatch.IMetric
	for _, name := range []string{"SessionStopped", "Takeover", "EndWaits", "UnreadLate"} {
		sessions = append(sessions, p.counted(name))
	}
	board.AddWidgets(graph("Sessions", sessions))
	board.AddWidgets(graph("Dead letters", deadLetters(p.Queues)), graph("Oldest message, seconds", oldest(p.Queues)))
	board.AddWidgets(ofFunctions(p)...)
	board.AddWidgets(graph("Throttled reads and writes of tables", p.Tables.throttles()))
	return board
}

// ofAPI shows the requests as API Gateway counts them, the messages as the ingest function does,
// and how long both take. Requests that wait for a handler or for entries of a log take longer on
// purpose.
func ofAPI(p *Pipeline) []awscloudwatch.IWidget {
	var messages []awscloudwatch.IMetric
	for _, name := range []string{"Accepted", "Replayed", "Refused", "Failed"} {
		messages = append(messages, p.counted(name))
	}
	api := p.API.metrics
	return []awscloudwatch.IWidget{
		graph("Requests to the API", []awscloudwatch.IMetric{
			labelled("requests", api.MetricCount(byAWS("Sum"))), labelled("4xx", api.MetricClientError(byAWS("Sum"))), labelled("5xx", api.MetricServerError(byAWS("Sum"))),
		}),
		graph("Messages at the API", messages),
		graph("Time to accept a message, seconds", []awscloudwatch.IMetric{labelled("p50", p.measured("AcceptTime", "p50")), labelled("p99", p.measured("AcceptTime", "p99"))}),
		graph("Time to answer a request, milliseconds", []awscloudwatch.IMetric{labelled("p50", api.MetricLatency(byAWS("p50"))), labelled("p99", api.MetricLatency(byAWS("p99")))}),
	}
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

// dashboardName has the region, and the pipeline unless it is the one of [NewStack]: the name must
// be the only one in the account.
func dashboardName(p *Pipeline) *string {
	parts := []*string{p.stackName}
	if id := p.Node().Id(); *id != mainPipeline {
		parts = append(parts, id)
	}
	parts = append(parts, awscdk.Aws_REGION())
	return awscdk.Fn_Join(jsii.String("-"), &parts)
}
