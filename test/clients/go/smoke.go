// Command smoke is a client that is made from the description alone, as its
// users make theirs: it has to compile, and to get the right answers from a
// running service.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"time"
)

//go:generate go tool oapi-codegen -generate types,client -package main -o client.gen.go ../openapi.json

func main() {
	if err := smoke(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func smoke(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var dev struct {
		RestURL         string `json:"restUrl"`
		ServiceAccounts []struct{ Name, Token string }
	}
	if err := json.Unmarshal(text, &dev); err != nil {
		return err
	}
	bearer := func(_ context.Context, r *http.Request) error {
		for _, a := range dev.ServiceAccounts {
			if a.Name == "reader" {
				r.Header.Set("Authorization", "Bearer "+a.Token)
			}
		}
		return nil
	}
	client, err := NewClientWithResponses(dev.RestURL, WithRequestEditorFn(bearer))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	five := int64(5)
	runs, err := client.ListRunsWithResponse(ctx, &ListRunsParams{Status: ListRunsParamsStatusActive, Limit: &five})
	if err != nil {
		return err
	}
	if runs.JSON200 == nil || len(runs.JSON200.Items) != 5 {
		return fmt.Errorf("list runs: %s: %s", runs.Status(), runs.Body)
	}
	run, err := client.GetRunWithResponse(ctx, runs.JSON200.Items[0].Id.String(), nil)
	if err != nil {
		return err
	}
	if run.JSON200 == nil || len(run.JSON200.Timeline.Stages) != 7 {
		return fmt.Errorf("get run: %s: %s", run.Status(), run.Body)
	}
	refused, err := client.ListMembersWithResponse(ctx, nil)
	if err != nil {
		return err
	}
	if refused.JSON403 == nil || refused.JSON403.Code != "service_principal_refused" {
		return fmt.Errorf("list members: %s: %s", refused.Status(), refused.Body)
	}
	return nil
}
