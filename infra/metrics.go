package infra

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
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
