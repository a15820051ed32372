package infra

import (
	"maps"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/effectively-once/once/internal/record"
)

// What the functions measure, as they write it: the events of package record by their names, in one namespace, for each system; where a message is rejected, for
// each reason too. EventGap and EventPending are ages in seconds, the others counts.
const (
	metricNamespace = "Once"
	systemDimension = "system"
	reasonDimension = "reason"
)

// counted is how often something happened in a period.
func counted(scope constructs.Construct, name record.EventName) awscloudwatch.Metric {
	return measured(scope, name, "Sum", nil)
}

// rejected is how often a message was rejected for a reason.
func rejected(scope constructs.Construct, reason record.Reason) awscloudwatch.Metric {
	return measured(scope, record.EventRejected, "Sum", map[string]*string{reasonDimension: jsii.String(string(reason))})
}

// age is the longest that something had to wait, in seconds.
func age(scope constructs.Construct, name record.EventName) awscloudwatch.Metric {
	return measured(scope, name, "Maximum", nil)
}

func measured(scope constructs.Construct, name record.EventName, statistic string, further map[string]*string) awscloudwatch.Metric {
	dimensions := map[string]*string{systemDimension: awscdk.Stack_Of(scope).StackName()}
	maps.Copy(dimensions, further)
	return awscloudwatch.NewMetric(&awscloudwatch.MetricProps{
		Namespace: jsii.String(metricNamespace), MetricName: jsii.String(string(name)), DimensionsMap: &dimensions, Statistic: jsii.String(statistic),
		Period: fiveMinutes(),
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
