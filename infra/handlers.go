package infra

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/jsii-runtime-go"

	"github.com/effectively-once/once/internal/aws/permission"
	"github.com/effectively-once/once/internal/config"
)

// handlers returns the permissions for the handlers that the configuration names, and sets those of
// the props in the configuration. It returns an error if a function can't call a handler, or if a
// call may take longer than the function has.
func (p *PipelineProps) handlers(c *config.Config) ([]permission.Permission, error) {
	named := *c
	named.Handlers = maps.Clone(c.Handlers)
	functions := map[string]string{}
	for name, f := range p.Handlers {
		if f == nil {
			return nil, fmt.Errorf("handlers.%s: there is no function", name)
		}
		functions[name] = *f.FunctionArn()
		delete(named.Handlers, name)
	}
	permissions, err := permission.ForHandlers(&named, p.Environment)
	return permissions, errors.Join(err, c.SetFunctions(functions), c.CheckTimeouts(p.Timeout, ingestTimeout))
}

// grantHandlers allows the role of a function that runs handlers to call them. The permission is on
// exactly the function or the alias that is named.
func (p *Pipeline) grantHandlers(props *PipelineProps, permissions []permission.Permission, role awsiam.Role) {
	grant(p.Construct, permissions, role)
	for _, name := range slices.Sorted(maps.Keys(props.Handlers)) {
		allow(role, props.Handlers[name].FunctionArn(), "lambda:InvokeFunction")
	}
}

// handlerFunctions returns the variable ONCE_HANDLERS: the functions of the props. Their ARNs are
// known when they are deployed, so the file of the configuration can't have them.
func (p *PipelineProps) handlerFunctions() *string {
	var items []string
	for _, name := range slices.Sorted(maps.Keys(p.Handlers)) {
		items = append(items, name+"="+*p.Handlers[name].FunctionArn())
	}
	return jsii.String(strings.Join(items, ","))
}
