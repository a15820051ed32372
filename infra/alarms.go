package infra

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatchactions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

const (
	// delayed is the longest intended delay of a trigger on the standard publish queue.
	delayed = 15 * time.Minute
	// slow is the time to accept a message from which on the HTTP API counts as slow. A direct
	// stream's handler takes up to 2 s of it.
	slow = 3 * time.Second
	// busy is the part of its concurrency limit from which on a function may soon be throttled.
	busy = 0.8
	// severityTag is the tag with the severity of an alarm.
	severityTag = "once:severity"
	// runbook is the page with a paragraph for each alarm.
	runbook = "https://github.com/effectively-once/once/blob/main/docs/operations.md#"
)

// AlarmsProps configure alarms.
type AlarmsProps struct {
	// Topic is notified when an alarm begins and ends. Defaults to none, with a warning at synth if
	// there are no Actions either.
	Topic awssns.ITopic
	// PageTopic is notified in place of Topic of the alarms with the severity page. Defaults to
	// Topic.
	PageTopic awssns.ITopic
	// Actions are taken when an alarm begins, beside the notification: functions, incidents, and
	// others of package awscloudwatchactions. Default to none.
	Actions []awscloudwatch.IAlarmAction
	// PageActions are taken in place of Actions by the alarms with the severity page. If nil,
	// Actions are.
	PageActions []awscloudwatch.IAlarmAction
	// OKActions are taken when an alarm ends. Default to none.
	OKActions []awscloudwatch.IAlarmAction
	// Age is how long a message may wait. Defaults to 15 minutes.
	Age time.Duration
	// Off lists alarms to leave out, by name. Defaults to none.
	Off []string
	// AccountConcurrency is how many functions may run at a time in the account and region.
	// Defaults to 1000. New accounts have less: check Service Quotas.
	AccountConcurrency int
	// Emulator leaves out alarms on metric math, which emulators refuse, and the warning.
	Emulator bool
}

// Alarms has one alarm for each sign that senders are turned away, or that a message may be stuck
// or lost; docs/operations.md says how to react to each.
type Alarms struct {
	All []awscloudwatch.Alarm

	scope constructs.Construct
	props AlarmsProps
	rules []rule
}

// severity says how urgent an alarm is.
type severity string

// The severities.
const (
	page   severity = "page"   // now: callers get errors, or messages wait too long or are lost
	ticket severity = "ticket" // in working hours: a cause, a loss that was decided, or a risk
)

// A rule describes an alarm.
type rule struct {
	name string
	severity
	description string
	// about is the heading of the alarm's paragraph in docs/operations.md. Defaults to name.
	about     string
	metric    awscloudwatch.IMetric
	threshold float64
	// points of periods reach the threshold in an alarm. They default to 1 of 1.
	points, periods int
	// silence raises the alarm if the metric is below the threshold or missing. Otherwise missing
	// data is no alarm, because counters have no data if nothing happens.
	silence bool
	// skip leaves out the alarm, though its name is valid.
	skip bool
}

// NewAlarms returns the alarms of a pipeline. If props is nil, the defaults apply. If props name an
// alarm that does not exist, it returns an error before it makes anything.
func NewAlarms(scope constructs.Construct, id string, p *Pipeline, props *AlarmsProps) (*Alarms, error) {
	a := &Alarms{}
	if props != nil {
		a.props = *props
	}
	orElse(&a.props.Age, defaults().AlarmAge)
	orElse(&a.props.AccountConcurrency, defaults().AccountConcurrency)
	a.describe(p)
	if err := a.check(); err != nil {
		return nil, fmt.Errorf("make alarms: %w", err)
	}
	a.scope = constructs.NewConstruct(scope, jsii.String(id))
	for i := range a.rules {
		if r := &a.rules[i]; !r.skip && !slices.Contains(a.props.Off, r.name) {
			a.make(r)
		}
	}
	if a.props.Topic == nil && len(a.props.Actions) == 0 && !a.props.Emulator {
		awscdk.Annotations_Of(a.scope).AddWarningV2(jsii.String("once:noAlarmTopic"), jsii.String("Alarms without a topic notify nobody: set alarmTopic, or Topic or Actions of AlarmsProps."))
	}
	return a, nil
}

// check returns an error that names the alarms to leave out that do not exist, and all that do.
func (a *Alarms) check() error {
	var names []string
	for i := range a.rules {
		names = append(names, a.rules[i].name)
	}
	slices.Sort(names)
	var errs []error
	for _, name := range a.props.Off {
		if !slices.Contains(names, name) {
			errs = append(errs, fmt.Errorf("alarmsOff: there is no alarm %q; there are %s", name, strings.Join(names, ", ")))
		}
	}
	return errors.Join(errs...)
}

// describe adds the rules of all alarms.
func (a *Alarms) describe(p *Pipeline) {
	a.ofIngest(p)
	a.ofMessages(p)
	a.ofSessions(p)
	a.ofQueues(p.Queues)
	a.ofTables(p.Tables)
	a.ofFunctions(p)
	a.ofSweeps(p)
}

func (a *Alarms) add(r rule) { a.rules = append(a.rules, r) }

func (a *Alarms) ofIngest(p *Pipeline) {
	a.add(rule{
		name: "IngestFailing", severity: page, description: "The HTTP API fails: senders get 503 and retry.",
		metric: minutely(p.counted("Failed")), threshold: 1, points: 2, periods: 3,
	})
	a.add(rule{
		name: "IngestSlow", severity: ticket, description: fmt.Sprintf("Of 100 messages, one takes %s or longer to be accepted.", slow),
		metric: minutely(p.measured("AcceptTime", "p99")), threshold: slow.Seconds(), points: 3, periods: 3,
	})
	a.add(rule{
		name: "ApiErrors", severity: ticket, description: "API Gateway answers requests with 5xx.",
		metric: p.API.metrics.MetricServerError(byAWS("Sum")), threshold: 1,
	})
}

func (a *Alarms) ofMessages(p *Pipeline) {
	a.add(rule{
		name: "HandlerFailing", severity: page, description: "A handler fails: its messages are retried, and then become dead letters.",
		metric: minutely(p.counted("HandlerFailed")), threshold: 1, points: 2, periods: 3,
	})
	a.add(rule{
		name: "Retrying", severity: ticket, description: "Messages have been retried for 15 minutes: a handler, a store or a message before them fails.",
		metric: p.counted("Retried"), threshold: 1, points: 3, periods: 3,
	})
	a.add(rule{name: "Pending", severity: page, description: "Effects wait for their destination.", metric: p.longest("PendingAge"), threshold: a.props.Age.Seconds()})
	a.add(rule{name: "Gap", severity: ticket, description: "Messages are held because a number before them does not come.", metric: p.longest("GapAge"), threshold: a.props.Age.Seconds()})
	a.add(rule{name: "KeyReuse", severity: ticket, description: "A sender uses one key for different messages.", metric: p.counted("KeyReuse"), threshold: 1})
	a.add(rule{name: "Unknown", severity: ticket, description: "Messages come that nobody issued, or that are forgotten.", metric: p.counted("Unknown"), threshold: 1})
	a.add(rule{name: "Skipped", severity: ticket, description: "The gap policy went on without messages that did not come.", metric: p.counted("Skipped"), threshold: 1})
	a.add(rule{
		name: "DeadLettered", severity: ticket, about: "Dead", description: "Messages or effects were refused: once show --dead-letters shows why.",
		metric: p.counted("DeadLettered"), threshold: 1,
	})
}

func (a *Alarms) ofSessions(p *Pipeline) {
	a.add(rule{
		name: "SessionStopped", severity: page, description: "An entry of a session failed too often, and its consumer stopped.",
		metric: p.counted("SessionStopped"), threshold: 1,
	})
	a.add(rule{name: "Takeover", severity: ticket, description: "Sessions are taken from holders that have not released them.", metric: p.counted("Takeover"), threshold: 10})
	a.add(rule{name: "EndWaits", severity: ticket, description: "The end of a stream waits for sessions: take them over or retire them.", metric: p.counted("EndWaits"), threshold: 1})
	a.add(rule{
		name: "UnreadLate", severity: page, description: "Entries have waited for a session for half of the time for which they are kept.",
		metric: hourly(p.counted("UnreadLate")), threshold: 1,
	})
}

func (a *Alarms) ofQueues(q *Queues) {
	work, dead := q.all()
	for _, n := range dead {
		a.add(rule{
			name: n.name, severity: ticket, about: "Dead", description: "There are dead letters: once show --dead-letters shows why.",
			metric: n.queue.MetricApproximateNumberOfMessagesVisible(byAWS("Maximum")), threshold: 1,
		})
	}
	for _, n := range work {
		limit, about := a.props.Age, "IngressAge"
		if n.queue == q.Publish {
			limit += delayed
		}
		if n.queue == q.Publish || n.queue == q.PublishFIFO {
			about = "PublishAge"
		}
		a.add(rule{
			name: n.name + "Age", severity: page, about: about, description: fmt.Sprintf("A message has waited for %s.", limit),
			metric: n.queue.MetricApproximateAgeOfOldestMessage(byAWS("Maximum")), threshold: limit.Seconds(),
		})
	}
}

func (a *Alarms) ofTables(t *Tables) {
	a.add(rule{
		name: "TablesThrottled", severity: ticket, description: "DynamoDB throttles a table or its index: messages get slower, and then fail.",
		metric: total(t.throttles(), 1), threshold: 1, points: 2, periods: 3, skip: a.props.Emulator,
	})
	for _, n := range []struct {
		name  string
		table awsdynamodb.ITable
	}{{"Groups", t.Groups}, {"Tokens", t.Tokens}} {
		a.add(rule{
			name: n.name + "Errors", severity: ticket, about: "TableErrors", description: "DynamoDB answers with errors of its own.",
			metric: total(systemErrors(n.table), 5), threshold: 1, points: 2, periods: 3, skip: a.props.Emulator,
		})
	}
}

func (a *Alarms) ofFunctions(p *Pipeline) {
	for _, f := range p.functions() {
		a.add(rule{
			name: f.name + "Errors", severity: page, about: "FunctionErrors", description: "The function crashes or runs out of time: its messages are retried until they are dead letters.",
			metric: f.MetricErrors(byAWS("Sum")), threshold: 1,
		})
		a.add(rule{
			name: f.name + "Throttles", severity: page, about: "FunctionThrottles", description: "The function is held back by a limit on concurrency.",
			metric: f.MetricThrottles(byAWS("Sum")), threshold: 1,
		})
		limit := p.concurrency(f.name, a.props.AccountConcurrency)
		a.add(rule{
			name: f.name + "Busy", severity: ticket, about: "FunctionBusy", description: fmt.Sprintf("The function runs at 80 %% or more of its %d at a time.", limit),
			metric: minutely(f.Metric(jsii.String("ConcurrentExecutions"), byAWS("Maximum"))), threshold: busy * float64(limit), points: 3, periods: 3,
		})
	}
}

// ofSweeps adds the alarms of the schedules. A paused system has none that run.
func (a *Alarms) ofSweeps(p *Pipeline) {
	for _, s := range p.sweeps() {
		a.add(rule{
			name: s.name + "Missed", severity: ticket, about: "SweepMissed", description: "The schedule could not start its sweep: " + s.loss,
			metric: byRule(s.Rule, "FailedInvocations"), threshold: 1,
		})
		a.add(rule{
			name: s.name + "Silent", severity: ticket, about: "SweepSilent", description: "No sweep was started in three intervals: " + s.loss,
			metric:    byRule(s.Rule, "Invocations").With(&awscloudwatch.MetricOptions{Period: awscdk.Duration_Minutes(jsii.Number(s.every.Minutes()))}),
			threshold: 1, points: 3, periods: 3, silence: true, skip: p.paused,
		})
	}
}

// make makes the alarm of a rule.
func (a *Alarms) make(r *rule) {
	comparison, missing := awscloudwatch.ComparisonOperator_GREATER_THAN_OR_EQUAL_TO_THRESHOLD, awscloudwatch.TreatMissingData_NOT_BREACHING
	if r.silence {
		comparison, missing = awscloudwatch.ComparisonOperator_LESS_THAN_THRESHOLD, awscloudwatch.TreatMissingData_BREACHING
	}
	about := r.about
	orElse(&about, r.name)
	alarm := awscloudwatch.NewAlarm(a.scope, jsii.String(r.name), &awscloudwatch.AlarmProps{
		AlarmDescription: jsii.String(fmt.Sprintf("once [%s]: %s %s%s", r.severity, r.description, runbook, strings.ToLower(about))),
		Metric:           r.metric, Threshold: jsii.Number(r.threshold), EvaluationPeriods: jsii.Number(float64(max(r.periods, 1))), DatapointsToAlarm: jsii.Number(float64(max(r.points, 1))),
		ComparisonOperator: comparison, TreatMissingData: missing,
	})
	awscdk.Tags_Of(alarm).Add(jsii.String(severityTag), jsii.String(string(r.severity)), nil)
	begin, end := a.actions(r.severity)
	if len(begin) > 0 {
		alarm.AddAlarmAction(begin...)
	}
	if len(end) > 0 {
		alarm.AddOkAction(end...)
	}
	a.All = append(a.All, alarm)
}

// actions returns the actions of the alarms of a severity, at their beginning and end.
func (a *Alarms) actions(of severity) (begin, end []awscloudwatch.IAlarmAction) {
	topic, actions := a.props.Topic, a.props.Actions
	if of == page {
		if a.props.PageTopic != nil {
			topic = a.props.PageTopic
		}
		if a.props.PageActions != nil {
			actions = a.props.PageActions
		}
	}
	if topic != nil {
		notify := awscloudwatchactions.NewSnsAction(topic)
		begin, end = append(begin, notify), append(end, notify)
	}
	return append(begin, actions...), append(end, a.props.OKActions...)
}
