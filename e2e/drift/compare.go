package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
)

// compare compares each resource of a stack, and each of its properties.
func (a *account) compare(ctx context.Context, s stack) (report, error) {
	created, err := a.created(ctx, s.name)
	if err != nil {
		return report{}, err
	}
	var r report
	for _, id := range slices.Sorted(maps.Keys(s.resources)) {
		wants := s.resources[id]
		if wants.Type == "AWS::CDK::Metadata" {
			continue
		}
		name, ok := created[id]
		if !ok {
			r.dropped = append(r.dropped, difference{wants.Type, "", id})
			continue
		}
		there, err := a.describe(ctx, wants.Type, name)
		if err != nil {
			return report{}, fmt.Errorf("describe %s %s: %w", wants.Type, id, err)
		}
		r.add(created.compare(id, wants, there))
	}
	return r, nil
}

// created returns the names of the created resources of a stack. A resource that an emulator can't
// create has no name, or one that says so.
func (a *account) created(ctx context.Context, stack string) (physical, error) {
	names := physical{}
	pages := cloudformation.NewListStackResourcesPaginator(a.stacks, &cloudformation.ListStackResourcesInput{StackName: &stack})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, r := range page.StackResourceSummaries {
			if made(r) {
				names[*r.LogicalResourceId] = *r.PhysicalResourceId
			}
		}
	}
	return names, nil
}

func made(r types.StackResourceSummary) bool {
	return r.LogicalResourceId != nil && r.PhysicalResourceId != nil && *r.PhysicalResourceId != "" && *r.PhysicalResourceId != "unknown"
}

// compare compares the properties of one resource with its description, which may be nil.
func (p physical) compare(id string, wants resource, there map[string]any) report {
	r := report{resources: 1}
	if there == nil {
		r.unlooked = []string{wants.Type}
		return r
	}
	r.described = 1
	for _, property := range slices.Sorted(maps.Keys(wants.Properties)) {
		if _, ok := there[property]; !ok {
			r.blind = append(r.blind, wants.Type+" "+property)
			continue
		}
		for _, w := range p.flatten(property, wants.Properties[property]) {
			if kept(there, strings.Split(w.path, "."), w.value) {
				r.kept++
				continue
			}
			r.dropped = append(r.dropped, difference{wants.Type, w.path, id})
		}
	}
	return r
}
