use super::code::FORMS;
use super::*;
use crate::NumberRule;
use crate::author::Dim;
use crate::op::evaluated;
use crate::program::{Grant, Instruction, Program};
use crate::rng::SampleKey;

/// A program with one code, for images of 3 channels.
fn program(lines: &str) -> String {
    format!("fuseloop pixel program 1\nmine(a=1)\ndraw a uniform 0 1\nchannels 3\n{lines}")
}

fn new(text: &str) -> Result<PixelProgram, ParamError> {
    PixelProgram::new(text.lines())
}

fn refused(text: &str) -> String {
    new(text).unwrap_err().to_string()
}

#[test]
fn a_text_that_is_no_program_is_refused_with_its_line() {
    let good = program("add c0 c2\nless %0 d0\nwhere %1 %0 0.5\nreturn %2 c1 c2");
    new(&good).unwrap();
    for (line, lines) in [
        (5, "add c0 c3\nreturn c0"),
        (5, "add c0 %0\nreturn c0"),
        (6, "add c0 c1\nadd c0 %1\nreturn c0"),
        (5, "add c0 d1\nreturn c0"),
        (5, "add c0\nreturn c0"),
        (5, "add c0 c1 c2\nreturn c0"),
        (5, "add  c0 c1\nreturn c0"),
        (5, "add c0 1e39\nreturn c0"),
        (5, "add c0 one\nreturn c0"),
        (5, "frobnicate c0\nreturn c0"),
        (6, "less c0 c1\nadd %0 c0\nreturn c0"),
        (6, "less c0 c1\nreturn %0"),
        (5, "where c0 c1 c2\nreturn c0"),
        (5, "not 1\nreturn c0"),
        (5, "return"),
        (5, "return c0 c1 c2 c0 c1"),
        (5, ""),
        (6, "return c0\nchannels 3\nreturn c0"),
        (6, "return c0\nchannels 0"),
        (6, "return c0\nchannels 5"),
        (6, "return c0\nadd c0 c1"),
        (7, "return c0\np 0.5\np 0.5"),
        (6, "return c0\np 1.5"),
        (6, "return c0\np nan"),
        (6, "return c0\ndraw b uniform 2 1"),
        (6, "return c0\ndraw b uniform nan 1"),
        (6, "return c0\ndraw b uniform -3e38 3e38"),
        (6, "return c0\ndraw b normal 0 -1"),
        (6, "return c0\ndraw b integers 0 0"),
        (6, "return c0\ndraw b integers 0 1.5"),
        (6, "return c0\ndraw b integers 0 1e30"),
        (6, "return c0\ndraw b choice"),
        (6, "return c0\ndraw b! choice 1"),
        (6, "return c0\ndraw b poisson 1"),
    ] {
        let text = program(&format!("{lines}\n"));
        let error = refused(&text);
        assert!(error.contains(&format!("in line {line},")), "{lines:?}: {error}");
    }
    for unfinished in
        [program(""), program("add c0 c1\n"), "fuseloop pixel program 1\nf".to_owned()]
    {
        assert!(refused(&unfinished).contains("line(s) long"), "{}", refused(&unfinished));
    }
    for (line, text) in [
        (1, "PixelProgram"),
        (2, "fuseloop pixel program 1\n(a)"),
        (2, "fuseloop pixel program 1\na\tb"),
    ] {
        assert!(refused(text).contains(&format!("in line {line},")), "{text}");
    }
    assert!(new("").is_err());
}

#[test]
fn a_program_that_is_too_long_is_refused() {
    let long = |line: &str, count: usize| program(&format!("{}return c0\n", line.repeat(count)));
    assert!(new(&long("add c0 c1\n", 4096)).is_ok());
    assert!(refused(&long("add c0 c1\n", 4097)).contains("in line 4101,"));
    assert!(refused(&long("pow c0 c1\n", 65)).contains("a shorter program"));
    assert!(refused(&long("add c0 c1\n", 200_000)).contains("bytes long"));
    let draws = "draw b choice 1\n".repeat(64);
    assert!(refused(&program(&format!("return c0\n{draws}"))).contains("at most 64 lines"));
}

/// Cuts and changes of a program are refused or are programs, and none is a panic.
#[test]
fn changed_texts_never_panic() {
    let mut rng = SampleKey::new(1, 2, 3).op(4);
    let before = ImageType::decoded(Dim::fixed(8), Dim::fixed(8));
    for _ in 0..200 {
        let text = text::random(&mut rng, &before).join("\n");
        new(&text).unwrap();
        for _ in 0..20 {
            let mut bytes = text.clone().into_bytes();
            let at = rng.below(bytes.len() as u32) as usize;
            match rng.below(3) {
                0 => bytes.truncate(at),
                1 => bytes[at] = b" %cdyx0123456789\n-.e"[rng.below(20) as usize],
                _ => drop(bytes.drain(at..(at + 9).min(text.len()))),
            }
            let Ok(op) = new(&String::from_utf8(bytes).unwrap()) else { continue };
            let Some(bound) = op.for_input(&Type::Image(before)) else { continue };
            let OpClass::Pixel(op) = bound.class() else { unreachable!() };
            let mut params = vec![0.0; op.param_count()];
            op.draw(&mut rng, Size::new(8, 8), &mut params);
            op.eval(
                &Eval { rule: NumberRule::Exact, params: &params, at: [3, 4] },
                &mut [1.0, 2.0, 255.0, 0.0],
            );
        }
    }
}

#[test]
fn no_operation_is_recorded_as_more_instructions_than_it_says() {
    for form in &FORMS {
        let mut operands = vec!["%0"; form.takes.len()];
        let is_truth = |k: usize| form.takes[k] == code::Kind::Truth;
        (0..operands.len()).filter(|k| is_truth(*k)).for_each(|k| operands[k] = "%1");
        let result = if form.gives == code::Kind::Truth { "c0" } else { "%2" };
        let lines =
            |step: &str| program(&format!("add c0 c1\nless c0 c1\n{step}return {result}\n"));
        let recorded = |text: &str| {
            let op = new(text).unwrap();
            let (rule, param_count) = (NumberRule::Fused, op.param_count());
            let grant = Grant { rule, param_count, uses_position: false, channels: 3, outputs: 1 };
            Program::record(grant, |e, pixels| op.emit(e, pixels)).unwrap().instructions().len()
        };
        let with = recorded(&lines(&format!("{} {}\n", form.name, operands.join(" "))));
        let without = recorded(&lines("").replace("%2", "%0"));
        assert!(with - without <= form.instructions, "{}: {}", form.name, with - without);
    }
}

#[test]
fn each_line_is_one_operation() {
    let of = |lines: &str, pixel: [f32; 3]| {
        let op = new(&program(lines)).unwrap();
        let cx = Eval { rule: NumberRule::Fused, params: &[0.5, 8.0, 16.0], at: [2, 3] };
        evaluated(&op, &cx, pixel)
    };
    assert_eq!(of("add c0 c1\nreturn %0 c2 d0", [1.0, 2.0, 300.0]), [3.0, 255.0, 0.5]);
    assert_eq!(of("return y x height", [0.0; 3]), [2.0, 3.0, 8.0]);
    assert_eq!(of("div 0 0\nreturn %0 -inf width", [0.0; 3]), [255.0, 0.0, 16.0]);
    assert_eq!(
        of("less_equal c0 c1\nnot %0\nwhere %1 7 9\nwhere %0 7 9\nreturn %2 %3 c2", [1.0; 3]),
        [9.0, 7.0, 1.0]
    );
    assert_eq!(
        of("round c0\nceil c1\npow c2 0.5\nreturn %0 %1 %2", [2.5, 2.5, 16.0]),
        [2.0, 3.0, 4.0]
    );
}

#[test]
fn inputs_are_those_that_there_is_code_for() {
    let op = new(&program("return c1\nchannels 4\nreturn c0 c1 c2 c3")).unwrap();
    let image = |channels| ImageType::decoded(Dim::fixed(4), Dim::fixed(4)).with_channels(channels);
    let output = |image: ImageType| match op.output(&Type::Image(image)) {
        Ok(Type::Image(image)) => Ok(image.channels),
        Ok(_) => unreachable!(),
        Err(error) => Err(error.to_string()),
    };
    assert_eq!((output(image(3)), output(image(4))), (Ok(1), Ok(4)));
    let refused = output(image(1)).unwrap_err();
    assert!(
        refused.starts_with("mine takes an image of levels")
            && refused.contains("of 3 or 4 channel(s)"),
        "{refused}"
    );
    assert!(output(image(5)).is_err());
    let never = new(&program("return c1\nchannels 4\nreturn c0 c1 c2 c3\np 0")).unwrap();
    let does_nothing = |channels| never.does_nothing(&Type::Image(image(channels)));
    assert!(does_nothing(4) && !does_nothing(3) && !does_nothing(1));
    let counts = ImageType { is_levels: false, dtype: crate::DType::U16, ..image(3) };
    assert!(output(counts).is_err());
    assert!(output(ImageType { dtype: crate::DType::F16, ..counts }).is_ok());
}

#[test]
fn draws_are_within_their_ranges() {
    let text = "fuseloop pixel program 1\nmine\np 0.5\ndraw a uniform -1 2\ndraw b normal 10 0\ndraw c integers -2 1\n\
        draw d choice 4 7\nchannels 1\nreturn d0";
    let op = new(text).unwrap();
    assert_eq!(op.param_names(), ["a", "b", "c", "d", "-", "-"]);
    let (mut rng, mut ran) = (SampleKey::new(0, 0, 0).op(0), 0);
    for _ in 0..1000 {
        let mut params = [f32::NAN; 6];
        ran += u32::from(op.draw(&mut rng, Size::new(5, 6), &mut params));
        let [a, b, c, d, height, width] = params;
        assert!(
            (-1.0..2.0).contains(&a) && [-2.0, -1.0, 0.0].contains(&c) && [4.0, 7.0].contains(&d)
        );
        assert_eq!([b, height, width], [10.0, 5.0, 6.0]);
    }
    assert!((400..600).contains(&ran), "{ran}");
}

#[test]
fn results_that_stay_levels_are_found() {
    for (is_level, code) in [
        (true, "sub 255 c0\nless c0 d0\nwhere %1 c0 %0\nreturn %2"),
        (true, "add c0 c1\nfma c2 1 %0\ndiv %1 3\nreturn %2"),
        (true, "exp c0\nmax %0 0\nmin %1 255\nreturn %2"),
        (true, "log c0\nmin %0 255\nmax %1 0\nreturn %2"),
        (true, "mul c0 d0\nreturn %0"),
        (true, "sub c0 100\nmul %0 %0\nsqrt %1\nreturn %2"),
        (true, "sub c0 100\nabs %0\nneg %1\nneg %2\nround %3\nreturn %4"),
        (true, "return height c0"),
        (false, "mul c0 1.01\nreturn %0"),
        (false, "sub c0 c1\nreturn %0"),
        (false, "max 0 nan\nmin %0 255\nreturn %0"),
        (false, "sqrt c0\nsqrt %0\nsub %1 4\nsqrt %2\nreturn %3"),
        (false, "div c0 c1\nreturn %0"),
        (false, "add 1e38 3e38\nsub %0 inf\nreturn %1"),
        (false, "exp c0\nmin 255 %0\nmax 0 %1\nreturn %2"),
        (false, "return y"),
    ] {
        let op = new(&program(code)).unwrap();
        let limits = &op.code(3).unwrap().limits;
        let found: Vec<bool> = limits.iter().map(|[above, below]| *above && *below).collect();
        let wanted = if code.contains("height") { vec![false, true] } else { vec![is_level] };
        assert_eq!(found, wanted, "{code}");
    }
}

#[test]
fn a_result_that_can_leave_one_side_only_is_clamped_there() {
    for (limits, code, level, clamped) in [
        ([true, false], "mul c0 1.3\nreturn %0", 200.0, 255.0),
        ([false, true], "sub c0 90\nreturn %0", 40.0, 0.0),
        ([false, false], "fma c0 2 -90\nreturn %0", 200.0, 255.0),
        ([false, false], "log c0\nreturn %0", 0.0, 0.0),
    ] {
        let op = new(&program(code)).unwrap();
        assert_eq!(op.code(3).unwrap().limits, [limits], "{code}");
        let image = Type::Image(ImageType::decoded(Dim::fixed(2), Dim::fixed(2)));
        let op = op.for_input(&image).unwrap();
        let OpClass::Pixel(op) = op.class() else { panic!("a pixel op") };
        let cx = Eval::new(NumberRule::Fused, &[]);
        assert_eq!(evaluated(op, &cx, [level; 3])[0], clamped, "{code}");
    }
}

/// Parameters and constants are loaded before the loop; the rest is what a pixel costs.
#[test]
fn a_traced_op_has_no_more_operations_than_the_built_in_one_of_its_formula() {
    let on_rgb = |line: fn(usize) -> String, result: fn(usize) -> usize| {
        let lines: Vec<String> = (0..3).map(line).collect();
        let results: Vec<String> = (0..3).map(|c| format!("%{}", result(c))).collect();
        format!(
            "fuseloop pixel program 1\nmine(a=1)\ndraw a uniform 0.6 1.4\nchannels 3\n{}\nreturn {}",
            lines.join("\n"),
            results.join(" ")
        )
    };
    let brightness = crate::RandomBrightness::new(0.4).unwrap();
    let solarize = crate::RandomSolarize::new(128.0).unwrap();
    let image = Type::Image(ImageType::decoded(Dim::fixed(9), Dim::fixed(9)));
    let count = |op: &dyn PixelOp| {
        let grant = Grant {
            rule: NumberRule::Fused,
            param_count: op.param_count(),
            uses_position: false,
            channels: 3,
            outputs: 3,
        };
        let program = Program::record(grant, |e, pixels| op.emit(e, pixels)).unwrap();
        let is_loaded =
            |i: &&Instruction| matches!(i, Instruction::Param(_) | Instruction::Splat(_));
        program.instructions().iter().filter(|i| !is_loaded(i)).count()
    };
    let cases: [(String, &dyn PixelOp); 3] = [
        (on_rgb(|c| format!("mul c{c} d0"), |c| c), &brightness),
        (on_rgb(|c| format!("sub 255 c{c}"), |c| c), &crate::RandomInvert::always()),
        (
            on_rgb(
                |c| format!("less c{c} 128\nsub 255 c{c}\nwhere %{} c{c} %{}", 3 * c, 3 * c + 1),
                |c| 3 * c + 2,
            ),
            &solarize,
        ),
    ];
    for (text, built_in) in cases {
        let traced = new(&text).unwrap().for_input(&image).unwrap();
        let OpClass::Pixel(traced) = traced.class() else { panic!("a pixel op") };
        let [traced, built_in_count] = [count(traced), count(built_in)];
        assert!(traced <= built_in_count, "{traced} for {built_in_count} of {built_in:?}");
    }
}

/// Whatever the operations, a result that is said to stay on a side of 0..=255 does.
#[test]
fn results_that_are_said_to_stay_levels_do() {
    let before = ImageType::decoded(Dim::fixed(300), Dim::fixed(300));
    let (mut rng, mut said) = (SampleKey::new(5, 0, 0).op(0), 0);
    for _ in 0..3000 {
        // Without the last step, which leaves the range.
        let text = text::random(&mut rng, &before).join("\n");
        let section: Vec<&str> = text.split("channels 2").next().unwrap().lines().collect();
        let count = section.len() - 9;
        let returns = format!("\nreturn %{}", rng.below(count.max(1) as u32));
        let text = section[..section.len() - 1].join("\n") + &returns;
        let Ok(op) = new(&text) else { continue };
        let code = op.code(1).unwrap();
        let [is_above, is_below] = code.limits[0];
        if !is_above && !is_below {
            continue;
        }
        said += 1;
        for _ in 0..50 {
            let mut params = vec![0.0; op.param_count()];
            let size = Size::new(1 + rng.below(300), 1 + rng.below(300));
            op.draw(&mut rng, size, &mut params);
            let at = [size.height, size.width].map(|side| rng.below(side) as i32);
            let sample = Sample { params: &params, draws: op.parts.draws.len(), at };
            let [found, ..] = code.eval(&sample, &[rng.below(256) as f32]);
            assert!(!is_above || found >= 0.0, "{found}: {text}");
            assert!(!is_below || found <= 255.0, "{found}: {text}");
        }
    }
    assert!(said > 100, "{said}");
}

/// NumPy 2 returns these for float32; Python's test of traced functions compares millions.
#[test]
fn quotients_are_rounded_down_and_leave_the_remainders_of_numpy() {
    let infinity = f32::INFINITY;
    for (a, b, quotient, remainder) in [
        (3.0, 0.3, 9.0, 0.299_999_9),
        (-7.0, 2.0, -4.0, 1.0),
        (7.0, -2.0, -4.0, -1.0),
        (-0.0, 5.0, -0.0, 0.0),
        (-1.0, infinity, -1.0, infinity),
        (5.0, -infinity, -1.0, -infinity),
        (1e30, 7.0, 1.428_571_5e29, 1.0),
        (3.4e38, 1e-45, infinity, 0.0),
    ] {
        let found = [floored::floor_div(a, b), floored::remainder(a, b)].map(f32::to_bits);
        assert_eq!(found, [quotient, remainder].map(f32::to_bits), "{a} and {b}");
    }
    assert!(floored::remainder(1.0, 0.0).is_nan() && floored::floor_div(0.0, 0.0).is_nan());
    assert_eq!(floored::floor_div(-1.0, 0.0), -infinity);
}
