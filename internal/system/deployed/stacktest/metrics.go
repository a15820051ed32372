package stacktest

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// A Metric names the values of a metric: namespace, name, stream and statistic, with slashes
// between them. The stream is empty for the whole system.
type Metric string

// A Value is the value of a metric for the minute that begins at a time.
type Value struct {
	At    time.Time
	Value float64
}

// metrics answers GetMetricData of CloudWatch.
func (a *AWS) metrics(w http.ResponseWriter, r *http.Request) {
	a.MetricCalls++
	if a.Metrics == nil {
		queryError(w, http.StatusForbidden, "AccessDenied", "not authorized to perform: cloudwatch:GetMetricData")
		return
	}
	var results strings.Builder
	for i := 1; ; i++ {
		query := fmt.Sprintf("MetricDataQueries.member.%d.", i)
		id, metric := r.FormValue(query+"Id"), query+"MetricStat.Metric."
		if id == "" {
			break
		}
		name := Metric(r.FormValue(metric+"Namespace") + "/" + r.FormValue(metric+"MetricName") + "/" + r.FormValue(metric+"Dimensions.member.1.Value") + "/" + r.FormValue(query+"MetricStat.Stat"))
		var times, values strings.Builder
		for _, v := range a.Metrics[name] {
			fmt.Fprintf(&times, "<member>%s</member>", v.At.UTC().Format(time.RFC3339))
			fmt.Fprintf(&values, "<member>%v</member>", v.Value)
		}
		fmt.Fprintf(&results, "<member><Id>%s</Id><Timestamps>%s</Timestamps><Values>%s</Values><StatusCode>Complete</StatusCode></member>", escape(id), &times, &values)
	}
	answerXML(w, "GetMetricData", "<MetricDataResults>"+results.String()+"</MetricDataResults>")
}
