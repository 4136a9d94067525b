package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	firstByteGoal  = 10 * time.Millisecond // beyond the requests to the REST service
	visitsPerRound = 100                   // of each page
)

// pageRequests are the pages that are measured, and the requests that each makes in parallel once it
// knows the workspace.
var pageRequests = map[string][]string{
	"/members": {"members?limit=100", "invitations?limit=100"},
	"/needs":   {"inbox?limit=50"},
	"/runs":    {"runs?status=active&counts=true&limit=100", "repos"},
}

// uiFirstByte measures, for one visitor, how much later the first byte of a page comes than the
// answers to the same requests to the REST service. The ratio is that of the slowest page to ten
// milliseconds.
func uiFirstByte(ctx context.Context, s *suite) (r result, err error) {
	db, err := s.database(ctx)
	if err != nil {
		return r, err
	}
	defer db.Close()
	a, err := s.startWebApp(ctx, db)
	if err != nil {
		return r, err
	}
	defer a.stop()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections}}
	defer client.CloseIdleConnections()
	over := map[string][]float64{} // milliseconds of all rounds, by page
	for i := range *rounds + 1 {
		most := 0.0
		for page, requests := range pageRequests {
			took, err := a.timeFirstBytes(ctx, client, page, requests)
			if err != nil {
				return r, err
			}
			if i == 0 { // opens the connections
				continue
			}
			over[page] = append(over[page], took...)
			most = max(most, median(took))
		}
		if i > 0 {
			r.Ratios = append(r.Ratios, most*float64(time.Millisecond)/float64(firstByteGoal))
		}
	}
	r.Note = map[string]any{}
	for page, took := range over {
		r.Note[page] = fmt.Sprintf("p50 %.1f ms, p95 %.1f ms", percentile(took, 0.5), percentile(took, 0.95))
	}
	return r, ctx.Err()
}

// timeFirstBytes returns, for each visit, by how many milliseconds the first byte of a page is later.
func (a *webApp) timeFirstBytes(ctx context.Context, client *http.Client, page string, requests []string) (over []float64, err error) {
	for range visitsPerRound {
		from := time.Now()
		body, err := a.get(ctx, client, a.cookies[0], page, "")
		if err != nil {
			return nil, err
		}
		first := time.Since(from)
		if err := drain(body); err != nil {
			return nil, err
		}
		from = time.Now()
		if err := a.requestParts(ctx, client, requests); err != nil {
			return nil, err
		}
		over = append(over, float64((first-time.Since(from)).Microseconds())/1000)
	}
	return over, nil
}

// requestParts makes the requests of a page to the REST service: the workspace first, then the others in parallel.
func (a *webApp) requestParts(ctx context.Context, client *http.Client, requests []string) error {
	if err := a.getREST(ctx, client, "workspace"); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, path := range requests {
		group.Go(func() error { return a.getREST(ctx, client, path) })
	}
	return group.Wait()
}

// getREST requests a path of the REST service as the Owner, and reads the answer to its end.
func (a *webApp) getREST(ctx context.Context, client *http.Client, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+a.rest.addr+"/api/v1/"+path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Cookie", a.cookies[0])
	req.Header.Set("X-Svc-Tenant", a.slug)
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		_ = res.Body.Close()
		return fmt.Errorf("get %s: %s", path, res.Status)
	}
	return drain(res.Body)
}

// drain reads a body to its end, so that its connection can be reused.
func drain(body io.ReadCloser) error {
	defer body.Close()
	_, err := io.Copy(io.Discard, body)
	return err
}
