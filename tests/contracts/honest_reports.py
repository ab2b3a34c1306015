"""Honest reports in Markdown, as judges write them: nothing in them speaks against the work."""

from __future__ import annotations

REPORTS = (
    (
        "## Summary\n\nAll acceptance criteria hold. Verified on a clean checkout.\n\n## Commands\n\n"
        "| Command | Exit | Notes |\n| --- | --- | --- |\n| `npm ci` | 0 | 3 deprecation warnings |\n"
        "| `npm test` | 0 | 64 passed, 2 skipped, 0 failed |\n"
        "| `npm run lint` | 0 | 0 errors, 3 warnings |\n| `npx tsc --noEmit` | 0 | no errors |\n\n"
        "## Checks\n\n| Check | Expected | Actual | Result |\n| --- | --- | --- | --- |\n"
        "| empty name | error 400 | error 400 | ✅ |\n"
        "| unknown user | login failed | login failed | pass |\n"
        "| wrong password | fails with 401 | fails with 401 | PASS |\n"
    ),
    (
        "| Case | Expected | Actual |\n| --- | --- | --- |\n| bad flag | exit 2 | exit 2 |\n"
        "| missing file | failed | failed |\n| empty input | error | error |\n"
    ),
    (
        "| # | Input | Expected result | Result |\n| --- | --- | --- | --- |\n"
        '| 1 | `--bad` | error | error |\n| 2 | `""` | rejected | rejected |\n'
    ),
    (
        "| Test case | Expected | Status |\n| --- | --- | --- |\n| GET /missing | 404 | 404 |\n"
        "| POST /login wrong password | 401 | 401 |\n| GET / | 200 | 200 |\n"
    ),
    (
        "| Command | Expected exit | Actual exit | Verdict |\n| --- | --- | --- | --- |\n"
        "| `./calc 1 2` | 0 | 0 | pass |\n| `./calc --bad` | 2 | 2 | pass |\n"
    ),
    (
        "| Command | Expected | Exit | Verdict |\n| --- | --- | --- | --- |\n"
        "| `./calc 1 2` | 0 | 0 | pass |\n| `./calc --bad` | 2 | 2 | pass |\n"
    ),
    (
        "| Command | Exit code | As expected |\n| --- | --- | --- |\n| `./calc 1 2` | 0 | yes |\n"
        "| `./calc --bad` | 2 (expected) | yes |\n"
    ),
    "- `./calc --bad` returns exit code 2 on bad input: verified",
    "- `./calc --bad`: exit 2, as specified",
    "- `./calc --bad` exits with 2 (expected)",
    "- `./calc --bad` exits 2 as required by AC2",
    "- `./calc --bad` → exit 2 ✅ (expected)",
    "- `grep -c TODO src/a.py` exits 1 as it should",
    "- `grep -rn TODO src/`: exit 1 (no matches, as expected)",
    "- `diff old.txt new.txt`: exit 1 (expected: the files differ)",
    "- `git diff --quiet`: exit code 1, expected since there are changes",
    "- `curl -s -o /dev/null -w '%{http_code}' localhost:8000/missing` returns 404 as specified",
    "- `curl -f localhost/missing`: exit 22, expected (404)",
    "- `python -m calc --bad` (expected exit 2): exit 2",
    "- `python -m calc --bad`: expected exit 2, got exit 2",
    "- Negative test: `python -m calc --bad` fails with exit 2 as the specification says",
    "- rejects invalid login: failed login is rejected ✔",
    "- ✅ `./login wrong` fails with 401",
    "- ✔ `parse('')` raises ValueError",
    "- `test_fail_fast` PASSED",
    "- `tests/test_errors.py::test_error_page` PASSED",
    "- `ErrorBoundary.test.tsx` ✓",
    "- `FAIL` is printed for a bad file: verified",
    "- `FAILED` marker is written to the log when a job fails",
    "- `failed`: the counter is now 0",
    "- `status: failed` is returned for unknown ids",
    "- `error`: a new field of the answer",
    "- `--red`: prints in red",
    "- `red`: a new colour",
    "- `broken`: a new state of a link",
    "- `color: red` → `color: var(--danger)`",
    "Before the fix 3 tests failed; now 0.",
    "Before the change `make test` ended with exit code 1; now exit code 0.",
    "- before: `make test` exit 1; after: `make test` exit 0",
    "- `make test` (before the fix): exit 1\n- `make test` (after the fix): exit 0",
    "- Before the fix: `pytest tests/test_bug.py`: exit 1 (reproduces the bug)",
    "- On main, `pytest tests/test_bug.py` exits 1, here it exits 0",
    "- Reproduced on the base commit: `pytest tests/test_bug.py` → exit 1, 1 failed",
    "- Reverting the fix makes `pytest tests/test_bug.py` fail (exit 1), restoring it makes it pass (exit 0)",
    "- Mutation check: with the fix removed `make test` ended with exit 1",
    "## Reproduction\n\n- `pytest tests/test_bug.py`: exit 1",
    "## Before the change\n\n- `pytest tests/test_bug.py`: exit 1, 1 failed",
    "## Baseline\n\n| Command | Exit |\n| --- | --- |\n| `make test` | 1 |",
    (
        "## Red/green proof\n\n| State | Command | Exit |\n| --- | --- | --- |\n"
        "| without the fix | `make test` | 1 |\n| with the fix | `make test` | 0 |"
    ),
    "| Check | Before | After |\n| --- | --- | --- |\n| unit | FAIL | PASS |\n| lint | FAIL | PASS |",
    "| Check | Result before | Result after |\n| --- | --- | --- |\n| unit | FAIL | PASS |",
    "Failures: none",
    "Errors: 0",
    "Errors: none.",
    "**Failures:** None",
    "- Failed: 0",
    "- Failures: 0 / 12",
    "- Errors: 0, warnings: 12",
    "Blocking issues: None.",
    "Risk: low",
    "- Regressions: none found",
    "Known issues: none",
    "Open points: none",
    "## Known limits\n\n- Fails on files above 2 GB, as documented.\n- Errors of the network are not retried.",
    "## Out of scope\n\n- [ ] retry on network errors",
    "## Future work\n\n- [ ] future work (not part of this task)",
    "## Future work\n\n### Performance\n\n- [ ] a cache",
    "- [ ] future work (not part of this task)",
    "- [ ] (optional) a shorter name",
    "- [ ] Follow-up: tell the docs team",
    "- [ ] Out of scope: retry on network errors",
    "- [x] AC1\n- [X] AC2\n- [ ] N/A: there is no UI",
    "- [ ] not applicable: database migration",
    "## Not applicable\n\n- [ ] database migration",
    "## Not in scope\n\n- [ ] database migration",
    "## Remaining ideas\n\n- [ ] a cache",
    "## Backlog\n\n- [ ] a cache",
    "## Possible improvements\n\n- [ ] a cache",
    "## Known limitations\n\n- [ ] Windows paths",
    (
        "## Coverage\n\n| Name | Stmts | Miss | Cover | Missing |\n| --- | --- | --- | --- | --- |\n"
        "| src/calc.py | 42 | 2 | 95% | 12, 88 |\n| TOTAL | 42 | 2 | 95% | |"
    ),
    "Coverage: 95% (threshold 90%)",
    "Coverage: 5 lines missing",
    "- Coverage: no regression",
    "Build: no errors, 3 warnings",
    "Build: 0 errors",
    "Build: ok",
    "Build: n/a",
    "Lint: 0 errors, 12 warnings",
    "Lint: no errors",
    "Lint: clean",
    "Types: 0 errors",
    "Types: no errors found",
    "Tests: 12 passed, 0 failed, 2 skipped",
    "Tests: none failed",
    "Tests: no failures",
    "Tests: 0 failures",
    "Tests: all green, error paths covered",
    "Tests: failing first, then passing (TDD)",
    "CI: not configured",
    "CI: n/a",
    "Pipeline: -",
    "Status: no errors",
    "Status: error-free",
    "Result: no failures",
    "Result: 0 errors",
    "Outcome: accepted",
    "State: merged",
    "Result: 404 for unknown ids, as specified",
    "Result: error 400 as specified",
    "Result: rejected, as it should be",
    "Check: error message is shown",
    "Checks: error pages, failed logins, timeouts",
    "Quality: errors are wrapped with context",
    "Types: Error, Failure, Success",
    "State: failed jobs are kept",
    "Status: failed jobs are retried 3 times",
    "Integration: failed payments are retried",
    "Unit: error paths",
    "### Negative case: bad flag\n\n- Input: `--bad`\n- Expected: error\n- Result: error ✅",
    "### Case 2: wrong password\n\nExpected result: failed\nResult: failed (as expected)",
    "#### Expected\n\nStatus: failed\n\n#### Actual\n\nStatus: failed, as expected",
    (
        "| Criterion | Met | Evidence |\n| --- | --- | --- |\n"
        "| AC1 failed login is rejected | yes | `test_failed_login` |\n"
        "| AC2 no TODO left | yes | grep: no matches |"
    ),
    "| Criterion | Status | Missing |\n| --- | --- | --- |\n| AC1 | ✅ | none |\n| AC2 | ✅ | - |",
    (
        "| Check | Status |\n| --- | --- |\n| unit | ✅ 12 passed |\n| e2e | N/A |\n| perf | - |\n"
        "| docs | n/a (no docs) |"
    ),
    ("| Check | Passed | Failed | Skipped |\n| --- | --- | --- | --- |\n| unit | 12 | 0 | 1 |\n| e2e | 4 | 0 | 0 |"),
    "| Suite | Pass | Fail | Errors |\n| --- | --- | --- | --- |\n| unit | 12 | 0 | 0 |",
    "| Suite | Passed | Failed |\n| --- | --- | --- |\n| failed logins | 3 | 0 |",
    "| Feature | OK |\n| --- | --- |\n| failed login | ✓ |",
    "| Question | Pass |\n| --- | --- |\n| Are there regressions? | no regressions |",
    (
        "| Check | Result |\n| --- | --- |\n| Any regression? | No |\n| Secrets in the diff? | No |\n"
        "| Breaking change? | No |"
    ),
    "| Check | OK? |\n| --- | --- |\n| Regressions found | none |",
    "| Error code | Status |\n| --- | --- |\n| E1 | 400 |\n| E2 | 500 |",
    "| HTTP | State |\n| --- | --- |\n| 500 | error |\n| 200 | success |",
    "| Job status | Badge colour | Result |\n| --- | --- | --- |\n| failed | red | pass |",
    (
        "| Input | Expected | Result | Verdict |\n| --- | --- | --- | --- |\n"
        "| `1/0` | error | error | PASS |\n| `1+1` | 2 | 2 | PASS |"
    ),
    (
        "| Scenario | Outcome | Pass? |\n| --- | --- | --- |\n| server down | timed out | yes |\n"
        "| wrong password | failed | yes |"
    ),
    "| Mutant | Result |\n| --- | --- |\n| `<` to `<=` | killed |\n| `+` to `-` | killed |",
    "| Mutant | Status |\n| --- | --- |\n| 1 | Killed |",
    "| Issue | Severity | Status |\n| --- | --- | --- |\n| naming | minor | open |",
    "| Task | Status |\n| --- | --- |\n| T1 | done |\n| T2 | done |",
    "## Task list\n\n| Follow-up | Status |\n| --- | --- |\n| docs | open |",
    (
        "## Acceptance criteria\n\n| Criterion | Expected | Actual | Status |\n| --- | --- | --- | --- |\n"
        "| AC1 | file missing: exit 2 | exit 2 | PASS |"
    ),
    ("## Acceptance criteria\n\n| Criterion | State before | Status |\n| --- | --- | --- |\n| AC1 | missing | PASS |"),
    "## Checklist\n\n- [x] tests\n- [x] lint\n- [x] no open findings",
    "## Git\n\n```\n src/error.py | 12 ++++----\n 2 files changed\n```",
    "## Output\n\n```\n1 failed, 3 passed\n```\n\nThis was before the fix.",
    "## Notes\n\n- `make test`: 3 tests failed before the fix.",
    "- `make test`: 12 passed; 3 failed before the fix; exit 0",
    "- `make test`: exit 0 (12 passed, 2 skipped, 0 failed)",
    "- `make test` → exit 0, was exit 1 before",
    "- `make test`: exit 0. Before the fix: exit 1.",
    "- `make test`: exit 0 (exit 1 on main)",
    "- `make test` exit code: 0\n- `make lint` exit code: 0 (12 warnings)",
    "- `npm test` exited with code 0 — 12 passed, 0 failed",
    "$ make test\nexit 0",
    "- Ran `make test` (exit 0). A failing variant with `--bad` gives exit 2 as specified.",
    "- `make test`: exit 0, including `test_exit_code_2` and `test_failed_login`",
    "- `pytest -k 'fail or error'`: exit 0, 6 passed",
    "- `make e2e`: not run, there is no UI",
    "- `make e2e`: skipped (no browser here), exit n/a",
    "- `go test ./...`: exit 0, ok example.com/a 0.3s",
    "- pytest: 12 passed, exit 0",
    "- go vet: no errors",
    "- make: nothing to be done",
    "- cargo clippy: 0 errors, 2 warnings",
    "- npm audit: 2 moderate vulnerabilities, none new",
    "- python: 3.12, node: 20",
    (
        "1. Ran the suite: green.\n2. Tried a wrong password: login fails with 401, as asked.\n"
        "3. Killed the server: the client times out after 5 s, as asked."
    ),
    (
        "# Prüfbericht\n\nErgebnis: bestanden\n\n- Fehlgeschlagen: 0\n- Übersprungen: 2\n\n## Prüfungen\n\n"
        "| Prüfung | Ergebnis |\n| --- | --- |\n"
        "| Anmeldung mit falschem Passwort | abgelehnt, wie gefordert |\n"
        "| Leerer Name | Fehler 400, wie gefordert |\n\nKeine Fehler. Status: keine Fehler"
    ),
    (
        "# Rapport\n\nRésultat : réussi\n\n- Échecs : 0\n- Tests : 12 réussis, 0 échec\n\n"
        "| Vérification | Résultat |\n| --- | --- |\n| connexion échouée rejetée | conforme |"
    ),
    "Tests: aucun échec",
    "Tests: 0 échec",
    "Tests: sin fallos",
    "Tests: 0 fallos",
    "Tests: keine fehlgeschlagen",
    "Tests: 0 fehlgeschlagen",
    "Status: keine Fehler",
    "Tests: nenhuma falha",
    "Tests: 失败 0",
    "Tests: 没有失败",
    "Tests: 0 失败",
    "Tests: 全部通过",
    "测试结果：通过，失败 0",
    "# Informe\n\nResultado: aprobado\n\n- Fallidas: 0\n- Tests: 12 superados, 0 fallidos\n\nNo hay errores.",
    "# 测试报告\n\n结果：通过\n\n| 检查 | 结果 |\n| --- | --- |\n| 单元测试 | 12 通过，0 失败 |\n| 失败 | 通过 |",
    "| 检查 | Result |\n| --- | --- |\n| 登录失败 | 显示失败提示 ✅ |",
    "All tests passed: yes, none failed",
    "Passed: 12",
    "Passed: 12, failed: 0",
    "Pass: yes",
    "OK: 12",
    "Green: yes",
    "Tests passed: 12/12",
    "All checks pass: ✅",
    "Met: 3/3",
    "Legend: ✅ pass, ❌ fail",
    "- ❌ → fail, ✅ → pass (legend)",
    "Legend: `✅` pass, `❌` fail",
    "- `make test`: exit 0 ✅ (❌ before)",
    "The icon ❌ is shown when `login()` fails.",
    "- `renderIcon('bad')` shows ❌, `renderIcon('good')` shows ✅",
    "- `Button` no longer turns red",
    "- `npm test`: passes; the ❌ in its output is printed by the reporter for the todo test",
    (
        "**Verdict: PASS**\n\n"
        "The build is green, the lint has 0 errors. One test (`test_known`) is an expected failure (xfail)."
    ),
    "- `pytest -q`: exit 0\n  12 passed, 1 xfailed\n  (the xfail is `test_known`, issue 12)",
    "- `pytest -q`\n  exit code: 0\n  before: exit code 1",
    "- `make verify`\n  - exit: 0\n  - failures: 0\n  - errors: 0",
    "1. `./run.sh missing.txt`\n   - expected: exit 1\n   - actual: exit 1",
    "1. `./run.sh missing.txt`\n   - expected exit code: 1\n   - actual exit code: 1\n   - verdict: pass",
    "### Manual checks\n\n1. `curl -i localhost/missing`\n   - HTTP 404\n   - result: error page as specified",
    "The process exits with 1 when the file is missing, as AC3 demands (`test_missing_file`).",
    "AC3: `calc missing.txt` prints an error and exits with status 1. Verified by `test_missing_file`.",
    "AC3 (`calc` exits non-zero on bad input): verified",
    "- AC3: `calc --bad` exits non-zero, as required",
    "- `calc --bad` must exit with 2: it does",
    "- `test_exit_code`: asserts exit code 2 for a bad flag",
    "- `src/cli.py`: exit code 2 for a bad flag, exit code 1 for a missing file",
    "- `src/cli.py:12`: returns exit code 2 on a usage error",
    "- `main()` now exits with 2 on usage errors",
    "- `sys.exit(2)` on a bad flag; exit status 1 on a missing file",
    "- `tests/test_cli.py` checks that the exit code is 2 for a bad flag",
    "| File | Change |\n| --- | --- |\n| `src/cli.py` | exit code 2 on a bad flag |",
    "| File | Status |\n| --- | --- |\n| `src/error.py` | modified |\n| `src/failed.py` | added |",
    ("| Requirement | Where | Status |\n| --- | --- | --- |\n| exit code 1 when missing | `src/cli.py:12` | met |"),
)

READERS = (
    "No WORST findings.",
    "## WORST\n\nNone.",
    "### WORST\n\nNone",
    "- WORST: none found",
    "- WORST: n/a",
    "**WORST:** 0 findings",
    "WORST: 0 issues",
    "WORST: none identified",
    "- WORST: no issues",
    "- WORST: None.\n- High: None.",
    "| Severity | Count | Notes |\n| --- | --- | --- |\n| WORST | 0 | none |",
    "| Severity | Count | Notes |\n| --- | --- | --- |\n| WORST | 0 | |",
    "| Severity | Findings |\n| --- | --- |\n| WORST | none found |",
    "| Severity | Findings |\n| --- | --- |\n| WORST | - |",
    "| Severity | Meaning |\n| --- | --- |\n| WORST | must be mended before release |",
    "## Severity scale\n\n- WORST: must be mended before release\n- Low: cosmetic",
    "## Resolved since the last round\n\n### WORST: open to all (fixed)",
    "### WORST: none found in the changed files",
    "Legend: WORST, Low",
    "WORST: 0, Low: 2",
    "- WORST (0)",
    "- **WORST** — none",
    "- WORST: No vulnerabilities found.",
    "- WORST: nothing found",
    "- WORST: keine",
    "- WORST: —",
)
"""Of those who read; WORST stands for their gravest word."""
