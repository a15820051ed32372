package infra

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/jsii-runtime-go"
)

// metricNamespace is where the functions count what they do, by the names in docs/observability.md: for the whole deployment without dimensions.
const metricNamespace = "Once"

// counted is how often something happened in a period.
func counted(name string) awscloudwatch.Metric { return measured(name, "Sum") }

// longest is the longest that something had to wait in a period, in seconds.
func longest(name string) awscloudwatch.Metric { return measured(name, "Maximum") }

func measured(name, statistic string) awscloudwatch.Metric {
	return awscloudwatch.NewMetric(&awscloudwatch.MetricProps{
		Namespace: jsii.String(metricNamespace), MetricName: jsii.String(name), Statistic: jsii.String(statistic), Period: fiveMinutes(),
	})
}

func fiveMinutes() awscdk.Duration { return awscdk.Duration_Minutes(jsii.Number(5)) }

// byAWS are the options of a metric that a service measures by itself. An alarm on a metric with a label would be one on metric math, which emulators refuse; labels are
// for the dashboard.
func byAWS(statistic string) *awscloudwatch.MetricOptions {
	return &awscloudwatch.MetricOptions{Statistic: jsii.String(statistic), Period: fiveMinutes()}
}

func labelled(label string, metric awscloudwatch.Metric) awscloudwatch.Metric {
	return metric.With(&awscloudwatch.MetricOptions{Label: jsii.String(label)})
}
