package main

import (
	"fmt"

	"svc/http/limit"
	"svc/metrics"
)

// dailyLimits bound the bytes that each workspace, and each submitter of its jobs, may store in a day with
// one process.
type dailyLimits struct {
	jobSpecs  *limit.Limit
	artifacts *limit.Limit
	jobLogs   *limit.Limit
}

// maxDailyMebibytes is 1 TiB a day. A limit of bytes is an interval between two bytes in nanoseconds: 78 at
// 1 TiB, and too coarse for much more.
const maxDailyMebibytes = 1 << 20 // MiB

// checkDailyLimits checks the settings of dailyLimits.
func (c Config) checkDailyLimits() error {
	for variable, mebibytes := range map[string]int{
		"SVC_DAILY_JOB_MEBIBYTES": c.DailyJobSpecs, "SVC_DAILY_ARTIFACT_MEBIBYTES": c.DailyArtifacts, "SVC_DAILY_LOG_MEBIBYTES": c.DailyLogs,
	} {
		if mebibytes < 0 || mebibytes > maxDailyMebibytes {
			return fmt.Errorf("%s is malformed: want 0 to %d", variable, maxDailyMebibytes)
		}
	}
	return nil
}

// newDailyLimits returns the limits. All are nil, which is no limit, if limits are turned off.
func newDailyLimits(cfg Config, m *metrics.Metrics) (d dailyLimits, err error) {
	if cfg.RateLimit == 0 {
		return d, nil
	}
	for _, l := range []struct {
		limit     **limit.Limit
		mebibytes int
		metric    string
	}{
		{&d.jobSpecs, cfg.DailyJobSpecs, "job_specifications"},
		{&d.artifacts, cfg.DailyArtifacts, "artifacts"},
		{&d.jobLogs, cfg.DailyLogs, "job_logs"},
	} {
		if *l.limit, err = limit.PerDay(l.mebibytes << 20); err != nil {
			return d, err
		}
		m.Limit(l.metric, (*l.limit).Refused)
	}
	return d, nil
}
