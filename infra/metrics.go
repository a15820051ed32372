package infra

import (
	"fmt"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"
)

// counted returns the sum of a metric in a period. docs/observability.md lists the metrics of the
// functions; without dimensions they are for the whole deployment.
func (p *Pipeline) counted(name string) awscloudwatch.Metric { return p.measured(name, "Sum") }

// longest returns the maximum of a metric in a period, in seconds.
func (p *Pipeline) longest(name string) awscloudwatch.Metric { return p.measured(name, "Maximum") }

func (p *Pipeline) measured(name, statistic string) awscloudwatch.Metric {
	return awscloudwatch.NewMetric(&awscloudwatch.MetricProps{
		Namespace: jsii.String(p.MetricsNamespace), MetricName: jsii.String(name), Statistic: jsii.String(statistic), Period: fiveMinutes(),
	})
}

func fiveMinutes() awscdk.Duration { return awscdk.Duration_Minutes(jsii.Number(5)) }

// hourly returns a metric with the period of the sweep of all groups, which counts it.
func hourly(metric awscloudwatch.Metric) awscloudwatch.Metric {
	return metric.With(&awscloudwatch.MetricOptions{Period: awscdk.Duration_Hours(jsii.Number(1))})
}

// byAWS returns the options of a metric that a service measures itself. They have no label, because
// an alarm on a metric with a label would use metric math, which emulators refuse; labels are for
// the dashboard.
func byAWS(statistic string) *awscloudwatch.MetricOptions {
	return &awscloudwatch.MetricOptions{Statistic: jsii.String(statistic), Period: fiveMinutes()}
}

func labelled(label string, metric awscloudwatch.Metric) awscloudwatch.Metric {
	return metric.With(&awscloudwatch.MetricOptions{Label: jsii.String(label)})
}

// minutely returns a metric with a period of one minute, for alarms that must not take long.
func minutely(metric awscloudwatch.Metric) awscloudwatch.Metric {
	return metric.With(&awscloudwatch.MetricOptions{Period: awscdk.Duration_Minutes(jsii.Number(1))})
}

// byRule returns the sum of a metric of a schedule.
func byRule(rule awsevents.Rule, name string) awscloudwatch.Metric {
	return awscloudwatch.NewMetric(&awscloudwatch.MetricProps{
		Namespace: jsii.String("AWS/Events"), MetricName: jsii.String(name), Statistic: jsii.String("Sum"), Period: fiveMinutes(),
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

// concurrency returns how many of a function can run at a time: its reservation, or the number that
// its queues start, or the quota of the account.
func (p *Pipeline) concurrency(function string, account int) int {
	if n := p.reserved[function]; n > 0 {
		return n
	}
	queues := map[string]int{"Process": len(p.Queues.sources) + 2, "Publish": 2}[function]
	if queues == 0 {
		return account
	}
	return min(account, queues*p.perQueue)
}

type namedSweep struct {
	name string
	awsevents.Rule
	every time.Duration
	loss  string // the consequence if it is missing
}

func (p *Pipeline) sweeps() []namedSweep {
	return []namedSweep{{"Sweep", p.Sweep, p.sweepEvery, "gaps stay."}, {"SweepAll", p.SweepAll, p.sweepAllEvery, "what crashed workers left stays."}}
}

// throttles returns the throttled reads and writes of the tables and of the index. Those of an
// index are not in the metrics of its table. Throttled writes of the index throttle the writes of
// the table; throttled reads slow down sweeps.
func (t *Tables) throttles() []awscloudwatch.IMetric {
	of := func(table awsdynamodb.ITable) map[string]*string {
		return map[string]*string{"TableName": table.TableName()}
	}
	index := of(t.Groups)
	index["GlobalSecondaryIndexName"] = jsii.String(waitingIndex)
	return []awscloudwatch.IMetric{
		byDynamoDB("ReadThrottleEvents", of(t.Groups)), byDynamoDB("WriteThrottleEvents", of(t.Groups)),
		byDynamoDB("ReadThrottleEvents", index), byDynamoDB("WriteThrottleEvents", index),
		byDynamoDB("ReadThrottleEvents", of(t.Tokens)), byDynamoDB("WriteThrottleEvents", of(t.Tokens)),
	}
}

// systemErrors returns the errors of DynamoDB itself in each operation that the functions call.
func systemErrors(table awsdynamodb.ITable) (out []awscloudwatch.IMetric) {
	for _, operation := range []string{"GetItem", "BatchGetItem", "Query", "Scan", "PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems"} {
		out = append(out, byDynamoDB("SystemErrors", map[string]*string{"TableName": table.TableName(), "Operation": jsii.String(operation)}))
	}
	return out
}

func byDynamoDB(name string, dimensions map[string]*string) awscloudwatch.IMetric {
	return awscloudwatch.NewMetric(&awscloudwatch.MetricProps{
		Namespace: jsii.String("AWS/DynamoDB"), MetricName: jsii.String(name), Statistic: jsii.String("Sum"), DimensionsMap: &dimensions,
	})
}

// total returns the sum of at most ten metrics in a period of some minutes. Missing values count as
// 0: DynamoDB sends no zeros, and alarms on its metrics keep their state if data is missing,
// whatever they are told to do, so an alarm without the expression would not end.
func total(metrics []awscloudwatch.IMetric, minutes float64) awscloudwatch.IMetric {
	using := map[string]awscloudwatch.IMetric{}
	for i, metric := range metrics {
		using[fmt.Sprintf("m%d", i)] = metric
	}
	return awscloudwatch.NewMathExpression(&awscloudwatch.MathExpressionProps{
		Expression: jsii.String("SUM(FILL(METRICS(), 0))"), UsingMetrics: &using, Period: awscdk.Duration_Minutes(jsii.Number(minutes)),
	})
}
