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

//go:generate go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen -generate types,client -package main -o client.gen.go ../openapi.json

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
	if err := pages(ctx, client, runs.JSON200.Total); err != nil {
		return err
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
	none := int64(0)
	wrong, err := client.ListRunsWithResponse(ctx, &ListRunsParams{Status: ListRunsParamsStatusActive, Limit: &none})
	if err != nil {
		return err
	}
	if wrong.JSON422 == nil || len(wrong.JSON422.Details) != 1 || wrong.JSON422.Details["limit"] == nil {
		return fmt.Errorf("list no runs: %s: %s", wrong.Status(), wrong.Body)
	}
	return jobs(ctx, client)
}

// pages lists all active runs, three at a time, each of them once.
func pages(ctx context.Context, client *ClientWithResponses, total int64) error {
	const three = 3
	limit, seen := int64(three), map[string]bool{}
	for offset := int64(0); offset < total; offset += three {
		page, err := client.ListRunsWithResponse(ctx, &ListRunsParams{Status: ListRunsParamsStatusActive, Limit: &limit, Offset: &offset})
		if err != nil {
			return err
		}
		if page.JSON200 == nil || len(page.JSON200.Items) != int(min(three, total-offset)) {
			return fmt.Errorf("runs from %d of %d: %s: %s", offset, total, page.Status(), page.Body)
		}
		for _, r := range page.JSON200.Items {
			seen[r.Id.String()] = true
		}
	}
	if int64(len(seen)) != total {
		return fmt.Errorf("pages: %d runs of %d", len(seen), total)
	}
	return nil
}

// jobs reads the jobs that have ended, with what is null of them and what is not.
func jobs(ctx context.Context, client *ClientWithResponses) error {
	found, err := client.ListJobsWithResponse(ctx, &ListJobsParams{Status: new(ListJobsParamsStatusTerminal)})
	if err != nil {
		return err
	}
	if found.JSON200 == nil || len(found.JSON200.Items) == 0 {
		return fmt.Errorf("list jobs: %s: %s", found.Status(), found.Body)
	}
	for _, j := range found.JSON200.Items {
		if j.Outcome == nil || string(*j.Outcome) != string(j.State) || j.Position != nil || j.WaitingReason != nil ||
			j.FinishedAt == nil || j.FinishedAt.Before(j.SubmittedAt) {
			return fmt.Errorf("job %s: %+v", j.Id, j)
		}
	}
	return nil
}
