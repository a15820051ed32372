package infra

import (
	"fmt"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatchactions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// delayed is the longest intended delay of a trigger on the standard publish queue.
const delayed = 15 * time.Minute

// AlarmsProps configure alarms.
type AlarmsProps struct {
	// Topic is notified when an alarm begins and ends. Defaults to none.
	Topic awssns.ITopic
	// Age is how long a message may wait. Defaults to 15 minutes.
	Age time.Duration
}

// Alarms has one alarm for each sign that a message may be stuck or lost. Each is on one metric;
// docs/deploy.md says how to react.
type Alarms struct {
	All []awscloudwatch.Alarm

	scope constructs.Construct
	props AlarmsProps
}

// NewAlarms returns the alarms of a pipeline. If props is nil, the defaults apply.
func NewAlarms(scope constructs.Construct, id string, p *Pipeline, props *AlarmsProps) *Alarms {
	a := &Alarms{scope: constructs.NewConstruct(scope, jsii.String(id))}
	if props != nil {
		a.props = *props
	}
	if a.props.Age == 0 {
		a.props.Age = defaults().AlarmAge
	}
	a.ofQueues(p.Queues)
	for _, f := range p.functions() {
		a.add(f.name+"Errors", "The function fails: its messages come again until they are dead letters.", f.MetricErrors(byAWS("Sum")), 1)
		a.add(f.name+"Throttles", "The function is held back by a limit on concurrency.", f.MetricThrottles(byAWS("Sum")), 1)
	}
	a.add("Pending", "Effects wait for their destination.", p.longest("PendingAge"), a.props.Age.Seconds())
	a.add("Gap", "Messages are held because a number before them does not come.", p.longest("GapAge"), a.props.Age.Seconds())
	a.add("KeyReuse", "A sender uses one key for different messages.", p.counted("KeyReuse"), 1)
	a.add("Unknown", "Messages come that nobody issued, or that are forgotten.", p.counted("Unknown"), 1)
	a.add("Skipped", "The gap policy went on without messages that did not come.", p.counted("Skipped"), 1)
	a.add("DeadLettered", "Messages or effects were refused: once show --dead-letters tells why.", p.counted("DeadLettered"), 1)
	a.add("SessionStopped", "An entry of a session failed too often, and its consumer stopped.", p.counted("SessionStopped"), 1)
	a.add("Takeover", "Sessions are taken from holders that have not released them.", p.counted("Takeover"), 10)
	a.add("EndWaits", "The end of a stream waits for sessions: take them over or retire them.", p.counted("EndWaits"), 1)
	a.add("UnreadLate", "Entries have waited for a session for half of the time for which they are kept.", hourly(p.counted("UnreadLate")), 1)
	a.add("SweepMissed", "The sweep could not be started: gaps stay.", missed(p.Sweep), 1)
	a.add("SweepAllMissed", "The sweep of all groups could not be started: what crashed workers left stays.", missed(p.SweepAll), 1)
	return a
}

// missed returns the metric of failed invocations by a schedule.
func missed(rule awsevents.Rule) awscloudwatch.Metric {
	return awscloudwatch.NewMetric(&awscloudwatch.MetricProps{
		Namespace: jsii.String("AWS/Events"), MetricName: jsii.String("FailedInvocations"), Statistic: jsii.String("Sum"), Period: fiveMinutes(),
		DimensionsMap: &map[string]*string{"RuleName": rule.RuleName()},
	})
}

type namedFunction struct {
	name string
	awslambda.Function
}

func (p *Pipeline) functions() []namedFunction {
	return []namedFunction{{"Ingest", p.Ingest}, {"Process", p.Process}, {"Publish", p.Publish}}
}

func (a *Alarms) ofQueues(q *Queues) {
	work, dead := q.all()
	for _, n := range dead {
		a.add(n.name, "There are dead letters: once show --dead-letters tells why.", n.queue.MetricApproximateNumberOfMessagesVisible(byAWS("Maximum")), 1)
	}
	for _, n := range work {
		limit := a.props.Age
		if n.queue == q.Publish {
			limit += delayed
		}
		a.add(n.name+"Age", fmt.Sprintf("A message has waited for %s.", limit), n.queue.MetricApproximateAgeOfOldestMessage(byAWS("Maximum")), limit.Seconds())
	}
}

// add adds an alarm on a metric that reaches a threshold once. Missing data is not an alarm,
// because counters have no data if nothing happens.
func (a *Alarms) add(id, description string, metric awscloudwatch.IMetric, threshold float64) {
	alarm := awscloudwatch.NewAlarm(a.scope, jsii.String(id), &awscloudwatch.AlarmProps{
		AlarmDescription: jsii.String("once: " + description), Metric: metric, Threshold: jsii.Number(threshold), EvaluationPeriods: jsii.Number(1),
		ComparisonOperator: awscloudwatch.ComparisonOperator_GREATER_THAN_OR_EQUAL_TO_THRESHOLD, TreatMissingData: awscloudwatch.TreatMissingData_NOT_BREACHING,
	})
	if a.props.Topic != nil {
		action := awscloudwatchactions.NewSnsAction(a.props.Topic)
		alarm.AddAlarmAction(action)
		alarm.AddOkAction(action)
	}
	a.All = append(a.All, alarm)
}
