// Package outcome reads what jobs of runs say: implementers about their work, and logs about failures. None of it is trusted.
package outcome

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"svc/events"
	"svc/input"
)

const (
	maxText = 10_000 // characters
	maxList = 100
)

// An Outcome is outcome.json, what an implementer says about its work. What has changed is told by git. Unknown fields are
// ignored.
type Outcome struct {
	Status        string `json:"status"` // done, needs_fact, gave_up, unavailable
	Summary       string `json:"summary"`
	Facts         []Fact `json:"facts"`
	CommitMessage string `json:"commitMessage"`
	Cost          *Cost  `json:"cost"`

	Plan     *Plan     `json:"plan"`     // of the stage plan
	Findings []Finding `json:"findings"` // of the stage review
}

// A Plan is what the stage plan is asked for.
type Plan struct {
	Summary string   `json:"summary"`
	Steps   []string `json:"steps"`
	Files   []string `json:"files"`
	Risk    string   `json:"risk"` // low, medium, high
}

// A Finding is one of a review.
type Finding struct {
	Severity string `json:"severity"` // blocking; others are notes
	Path     string `json:"path"`
	Line     int    `json:"line"`
	Text     string `json:"text"`
}

// String returns where the finding is, and what it says.
func (f Finding) String() string {
	if f.Path == "" {
		return f.Text
	}
	return fmt.Sprintf("%s:%d: %s", f.Path, f.Line, f.Text)
}

// A Fact is something that the implementer knows of the issue, or wants to know.
type Fact struct {
	Text string `json:"text"`
	Sure bool   `json:"sure"`
}

// A Cost is what the implementer says that its work cost.
type Cost struct {
	Cents        *float64 `json:"cents"`
	InputTokens  int64    `json:"inputTokens"`
	OutputTokens int64    `json:"outputTokens"`
}

// Secrets are the values of secrets by name.
type Secrets map[string]string

// In returns the name of a secret that is in a change, or "".
func (s Secrets) In(diff []byte) string {
	for name, value := range s {
		if bytes.Contains(diff, []byte(value)) {
			return name
		}
	}
	return ""
}

// clean returns a text without secrets and what else may not be stored.
func (s Secrets) clean(text string) string {
	for _, value := range s {
		text = strings.ReplaceAll(text, value, "***")
	}
	return Clean(text)
}

// Clean returns text from outside as it may be stored: without tokens, control characters and whatever would be hidden
// from a reader, and not too long.
func Clean(text string) string { return input.Text(input.MaskTokens(text), maxText) }

// Parse returns an outcome without anything that may not be stored. It is zero if there is none.
func Parse(text []byte, secrets Secrets) (o Outcome) {
	if json.Unmarshal(text, &o) != nil {
		return Outcome{}
	}
	o.Summary, o.CommitMessage = secrets.clean(o.Summary), secrets.clean(o.CommitMessage)
	for i := range o.Facts {
		o.Facts[i].Text = secrets.clean(o.Facts[i].Text)
	}
	for i, f := range o.Findings {
		o.Findings[i].Path, o.Findings[i].Text = secrets.clean(f.Path), secrets.clean(f.Text)
	}
	if p := o.Plan; p != nil {
		p.Summary, p.Risk = secrets.clean(p.Summary), secrets.clean(p.Risk)
		for _, list := range []*[]string{&p.Steps, &p.Files} {
			*list = (*list)[:min(len(*list), maxList)]
			for i, text := range *list {
				(*list)[i] = secrets.clean(text)
			}
		}
	}
	return o
}

// Needs returns what people are asked.
func (o Outcome) Needs() string {
	for _, f := range o.Facts {
		if !f.Sure && f.Text != "" {
			return f.Text
		}
	}
	return o.Summary
}

// Message returns the message of the commit.
func (o Outcome) Message(title string) string {
	if strings.TrimSpace(o.CommitMessage) == "" {
		return title
	}
	return o.CommitMessage
}

// CostOf returns the cost that an implementer reports, or that of the tokens which it reports. What it does not report is
// unknown, and not nothing.
func (o Outcome) CostOf(job events.ID, prices events.TokenPrices) events.RunCostRecorded {
	e := events.RunCostRecorded{Source: "model", Key: fmt.Sprintf("job/%s/model", job), Unknown: true}
	if c := o.Cost; c != nil {
		e.Quantity = max(0, c.InputTokens) + max(0, c.OutputTokens)
		byTokens := (prices.Input*float64(max(0, c.InputTokens)) + prices.Output*float64(max(0, c.OutputTokens))) / 1e6
		switch {
		case c.Cents != nil && *c.Cents >= 0 && *c.Cents < maxCents:
			e.Cents, e.Unknown = int64(*c.Cents+0.5), false
		case c.Cents == nil && prices != events.TokenPrices{} && e.Quantity > 0 && byTokens < maxCents:
			e.Cents, e.Unknown, e.Basis = int64(math.Ceil(byTokens)), false, events.CostByPrices
		}
	}
	return e
}

// maxCents bounds what an implementer may say that it cost.
const maxCents = 1_000_000_00
