package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const withGateway = `{"Resources": {
	"Gateway": {"Type": "AWS::EC2::NatGateway", "Properties": {"AllocationId": {"Ref": "Address"}}},
	"Route": {"Type": "AWS::EC2::Route", "DependsOn": ["Gateway", "Vpc"], "Properties": {
		"NatGatewayId": {"Fn::GetAtt": ["Gateway", "NatGatewayId"]}, "VpcId": {"Ref": "Vpc"}}},
	"Vpc": {"Type": "AWS::EC2::VPC", "DependsOn": "Gateway", "Properties": {"Tags": [{"Key": "gateway", "Value": {"Ref": "Gateway"}}], "CidrBlock": "10.0.0.0/16"}}
}}`

func TestAResourceThatAnEmulatorRefusesIsCutOutWithAllThatRefersToIt(t *testing.T) {
	app, to := t.TempDir(), filepath.Join(t.TempDir(), "cut")
	for name, text := range map[string]string{"Shop.template.json": withGateway, "manifest.json": "{}"} {
		if err := os.WriteFile(filepath.Join(app, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := cut(app, to, map[string]string{"AWS::EC2::NatGateway": "unknown", "AWS::EC2::VPC CidrBlock": "dropped"}); err != nil {
		t.Fatal(err)
	}
	var got, original map[string]any
	if err := readJSON(filepath.Join(to, "Shop.template.json"), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"Resources": map[string]any{
		"Route": map[string]any{"Type": "AWS::EC2::Route", "DependsOn": []any{"Vpc"}, "Properties": map[string]any{"VpcId": map[string]any{"Ref": "Vpc"}}},
		"Vpc":   map[string]any{"Type": "AWS::EC2::VPC", "Properties": map[string]any{"CidrBlock": "10.0.0.0/16"}},
	}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the template to deploy (-want +got):\n%s", d)
	}
	if err := readJSON(filepath.Join(app, "Shop.template.json"), &original); err != nil {
		t.Fatal(err)
	}
	if r, _ := original["Resources"].(map[string]any); len(r) != 3 {
		t.Errorf("the app itself has lost resources: %v", r)
	}
	if _, err := os.Stat(filepath.Join(to, "manifest.json")); err != nil {
		t.Error(err)
	}
}

func TestAFolderWithoutTemplatesIsNoAppToCut(t *testing.T) {
	if err := cut(t.TempDir(), filepath.Join(t.TempDir(), "cut"), nil); err == nil {
		t.Error("no error")
	}
}
