package infra

import (
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// addConstruct adds the pipeline, its alarms and its outputs to a stack whose template the
// construct of packaging/construct includes in stacks of other apps. The construct sets the
// archives, network, key and topics, which are objects of such an app.
func (s *Settings) addConstruct(stack awscdk.Stack) error {
	s.addValues(stack)
	s.lookUp(stack)
	p, err := NewPipeline(stack, mainPipeline, &s.PipelineProps)
	if err != nil {
		return err
	}
	if _, err := NewAlarms(stack, "Alarms", p, &AlarmsProps{
		Age: s.AlarmAge, Off: s.AlarmsOff, AccountConcurrency: s.AccountConcurrency, Emulator: s.Emulator,
	}); err != nil {
		return err
	}
	awscdk.Annotations_Of(stack).AcknowledgeWarning(jsii.String("once:noAlarmTopic"), jsii.String("the construct has topics, and the same warning"))
	newOutputs(p, "")
	stack.TemplateOptions().SetMetadata(&map[string]any{"once": s.describe(p)})
	return nil
}

// addValues adds a parameter for each text that the construct can replace by a value of its app,
// with the setting as default. A setting with an empty value has no parameter.
func (s *Settings) addValues(stack awscdk.Stack) {
	text := func(name string, setting *string) {
		if *setting != "" {
			props := &awscdk.CfnParameterProps{Default: jsii.String(*setting)}
			*setting = *awscdk.NewCfnParameter(stack, jsii.String(name), props).ValueAsString()
		}
	}
	list := func(name string, setting *[]string) {
		if len(*setting) > 0 {
			props := &awscdk.CfnParameterProps{Type: jsii.String("CommaDelimitedList"), Default: strings.Join(*setting, ",")}
			values := awscdk.NewCfnParameter(stack, jsii.String(name), props).ValueAsList()
			*setting = []string{*(*values)[0]} // one token for the whole list
		}
	}
	orElse(&s.MetricsNamespace, s.Stack)
	text("MetricsNamespace", &s.MetricsNamespace)
	list("CorsOrigins", &s.API.CORSOrigins)
	text("JwtIssuer", &s.API.JWTIssuer)
	list("JwtAudience", &s.API.JWTAudience)
	text("UserPool", &s.API.UserPool)
	s.Archives = &Archives{
		Bucket: awss3.Bucket_FromBucketName(stack, jsii.String("Code"), jsii.String("set-by-the-construct")),
		Prefix: jsii.String(""), Architecture: architecture(s.Architecture).Name(), Config: jsii.String(configFile),
	}
}

// describe returns the part of the template's metadata that the construct reads: the ids of
// resources, and the actions that a key and a network need.
func (s *Settings) describe(p *Pipeline) map[string]any {
	ids := map[string]*string{}
	add := func(name string, c constructs.IConstruct) {
		if element, ok := c.Node().DefaultChild().(awscdk.CfnElement); ok {
			ids[name] = awscdk.Stack_Of(p).GetLogicalId(element)
		}
	}
	for _, f := range p.functions() {
		add(f.name, f.Function)
		add(f.name+"Role", f.Role())
	}
	add("Groups", p.Tables.Groups)
	add("Tokens", p.Tables.Tokens)
	add("Bucket", p.Bucket)
	work, dead := p.Queues.all()
	for _, n := range append(work, dead...) {
		add(n.name+"Queue", n.queue)
	}
	if s.API.Kind == REST {
		add("Api", p.API.REST)
		add("Stage", p.API.RESTStage)
	} else {
		add("Api", p.API.HTTP)
		add("Stage", p.API.HTTPStage)
	}
	return map[string]any{"resources": ids, "config": s.configOf(), "keyActions": keyUse, "networkActions": networkUse}
}

// configOf returns the configuration that a template is made for, or an empty text if it is made
// for none.
func (s *Settings) configOf() string {
	if s.ConfigFile == "" {
		return ""
	}
	return s.Config
}
