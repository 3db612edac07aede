//! The system's libjpeg-turbo: a small C program, compiled here and controlled through pipes, so
//! that a yardstick needs no unsafe code and no build script.

use crate::turn::Turn;
use fuseloop_ops::author::Window;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/window/libjpeg.c");

/// Compiles the program into `folder`. If that fails, prints what is missing and returns `None`.
pub(crate) fn compile(folder: &Path) -> Option<PathBuf> {
    let program = folder.join("libjpeg");
    let build = |compiler: &str| {
        let mut command = Command::new(compiler);
        command.args(["-O2", "-o"]).arg(&program).args([SOURCE, "-ljpeg"]).output()
    };
    let Ok(output) = build("cc").or_else(|_| build("gcc")) else {
        println!("no rows of libjpeg-turbo: no C compiler here (Debian: gcc)");
        return None;
    };
    if !output.status.success() {
        println!(
            "no rows of libjpeg-turbo: its header or library is missing (Debian: libjpeg62-turbo-dev)"
        );
        let errors = String::from_utf8_lossy(&output.stderr);
        errors.lines().filter(|line| line.contains("error")).for_each(|line| println!("  {line}"));
        return None;
    }
    Some(program)
}

/// The program, with its images in memory. Dropping this value ends the program.
pub(crate) struct Libjpeg {
    child: Child,
    /// Taken when this value is dropped: closing the pipe ends the program.
    orders: Option<ChildStdin>,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Libjpeg {
    /// Passes `files` and the windows wanted of each to the program. The files are stored in
    /// `folder` meanwhile.
    pub(crate) fn start(
        program: &Path,
        folder: &Path,
        files: &[Vec<u8>],
        windows: &[(usize, Window)],
    ) -> Self {
        let mut command = Command::new(program);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut libjpeg = Self { orders: child.stdin.take(), child, answers };
        let mut script = format!("files {}\n", files.len());
        for (n, bytes) in files.iter().enumerate() {
            let path = folder.join(format!("{n}.jpg"));
            std::fs::write(&path, bytes).unwrap();
            script += &format!("{}\n", path.display());
        }
        script += &format!("windows {}\n", windows.len());
        for (file, Window { top, left, height, width }) in windows {
            script += &format!("{file} {top} {left} {height} {width}\n");
        }
        assert_eq!(libjpeg.ask(&script), "ready");
        libjpeg
    }

    fn ask(&mut self, orders: &str) -> String {
        let pipe = self.orders.as_mut().expect("open until dropped");
        pipe.write_all(orders.as_bytes()).unwrap();
        pipe.flush().unwrap();
        self.answers.next().expect("an answer: see the program's own error above").unwrap()
    }

    /// Runs one turn of `full` or `crop`.
    pub(crate) fn turn(&mut self, order: &str) -> Turn {
        let answer = self.ask(&format!("{order}\n"));
        let numbers: Vec<u64> = answer.split(' ').map(|number| number.parse().unwrap()).collect();
        let [nanos, decodes, pixels] = *numbers else { panic!("{answer}") };
        Turn { nanos, decodes, pixels }
    }
}

impl Drop for Libjpeg {
    fn drop(&mut self) {
        drop(self.orders.take());
        let _ = self.child.wait();
    }
}
